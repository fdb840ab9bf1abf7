# test_manners.sh - what a call may not leave changed is put back and named: references to inputs, working folder, signals, locale, umask,
# descriptors, standard output, threads, memory beside tensors, a kiln_ctx that is used too late. A sampler that never steps is an
# error. A probe that crashes or hangs is not tried again.
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
ulimit -c 0
export XDG_CACHE_HOME="$work/xdg" TMPDIR="$work"
unset KILN_PLUGIN_PATH KILN_CACHE
kiln="$KILN_ROOT/$KILN_BUILD/kiln"
cd "$work" || exit 2
mkdir plugins
gcc -std=c11 -D_GNU_SOURCE -O0 -g -w -fPIC -shared -I"$KILN_ROOT/include" "$KILN_ROOT/tests/plugin/hostile/manners.c" -o plugins/manners.so -lpthread -lm || exit 2
case $KILN_BUILD in *-address | *-thread) ours=0 ;; *) ours=1 ;; esac
of_threads() { if [ $ours -eq 1 ]; then verdict "$@"; else echo "skip $1: the sanitizer begins threads in code of its own"; fi; }
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else tail -n 20 run.txt paths.txt; echo "FAIL $1"; status=1; fi
}
cat >w.yaml <<'Y'
kiln: 1
nodes:
  blank: {class_type: EmptyImage, inputs: {width: 64, height: 64, batch_size: 1, color: 255}}
  it: {class_type: Manners, inputs: {image: [blank, 0], habit: none}}
  then: {class_type: Waits, inputs: {image: [it, 0]}}
  save: {class_type: SaveImage, inputs: {images: [then, 0], filename_prefix: p}}
Y
run() { rm -rf out; "$kiln" run w.yaml --plugins plugins --out out --no-cache "$@" >paths.txt 2>run.txt; code=$?; }
# named HABIT PATTERN [OPTIONS...]: a warning with those words, and the picture is made, in its place, with its permissions
named() {
    local habit=$1 pattern=$2; shift 2
    run --set it.habit="$habit" "$@"
    [ $code -eq 0 ] && [ "$(grep -c "warning: node 'it' (Manners) of plugin org.example.manners $pattern" run.txt)" -eq 1 ] && [ -e out/p_00001_.png ] &&
        [ "$(cat paths.txt)" = out/p_00001_.png ] && [ "$(stat -c %a out/p_00001_.png)" = 644 ]
    verdict "$habit" $?
}
# faulted HABIT PATTERN [OPTIONS...]: the node fails with those words
faulted() {
    local habit=$1 pattern=$2; shift 2
    run --set it.habit="$habit" "$@"
    [ $code -eq 1 ] && grep -q "kiln: error: node 'it' (Manners): $pattern" run.txt && [ ! -e out/p_00001_.png ]; verdict "${habit}_validated" $?
}
run; [ $code -eq 0 ] && ! grep -q warning run.txt; verdict good_manners $?
run --validate; [ $code -eq 0 ] && ! grep -q warning run.txt; verdict good_manners_validated $?
named borrowed "gave its input 'image' as an output without a reference of its own; call host->ref() on what is handed on"
named stray "called host->unref() on its input 'image', which is borrowed; give up only what you have made"
faulted borrowed "plugin org.example.manners: gave its input 'image' as an output without a reference" --validate
faulted stray "plugin org.example.manners: called host->unref() on its input 'image'" --validate
run --set it.habit=cache; [ $code -eq 0 ] && ! grep -q 'warning' run.txt; verdict references_that_are_its_own $?
named chdir 'changed the working folder of the process; it was put back'
named mask 'changed the signal mask of its thread; it was put back'
named handler 'changed what SIGINT does; it was put back'
if locale -a 2>/dev/null | grep -qi '^C\.utf'; then named locale 'changed the locale to .*C.UTF-8.*; it was put back'; else echo "skip locale: there is no C.UTF-8 here"; fi
named umask 'changed the umask from 022 to 000; it was put back'
named close 'closed or replaced standard output (descriptor 1); it was put back'
named printf "wrote to standard output, which is for the paths of results; what it writes goes to standard error instead. Use host->log()"
[ "$(grep -c '^hello from the plugin$' run.txt)" -eq 1 ]; verdict what_it_printed_is_on_standard_error $?
named write "wrote to standard output, which is for the paths of results"
[ "$(grep -c '^plain$' run.txt)" -eq 1 ]; verdict what_it_wrote_is_there_too $?
export MANNERS_OLD=old
environment='; it was put back. Other threads read it meanwhile: hand settings on as arguments'
named setenv "changed the environment (MANNERS_NEW, HOME)$environment"
named unsetenv "changed the environment (HOME, MANNERS_OLD)$environment\|changed the environment (MANNERS_OLD, HOME)$environment"
named putenv "changed the environment (MANNERS_OLD)$environment"
named scribble "changed the environment (MANNERS_OLD)$environment"
named environ "changed the environment (.*, \.\.\.)$environment"
run --set it.habit=same; [ $code -eq 0 ] && ! grep -q warning run.txt; verdict a_variable_that_stays_what_it_is $?
# The node after it sees what was there before.
sed 's/class_type: Waits, inputs: {image: \[it, 0\]}/class_type: Environment, inputs: {image: [it, 0]}/' w.yaml >env.yaml
for habit in setenv unsetenv putenv scribble environ; do
    "$kiln" run env.yaml --plugins plugins --out out --no-cache --set it.habit=$habit >paths.txt 2>run.txt && grep -q 'environment is as it was$' run.txt; verdict "after_$habit" $?
done
# A file that the cache relies on: its locks are gone with it, so the process is begun anew.
for habit in store claims; do
    rm -rf out; "$kiln" run w.yaml --plugins plugins --out out --cache "$work/store" --set it.habit=$habit >paths.txt 2>run.txt
    [ $? -ne 0 ] && grep -q "node 'it' (Manners).*org.example.manners.*closed descriptors that it had not opened" run.txt; verdict "$habit" $?
    rm -rf out; "$kiln" run w.yaml --plugins plugins --out out --cache "$work/store" --trust all --set it.habit=$habit >paths.txt 2>run.txt
    grep -q "warning: node 'it' (Manners) of plugin org.example.manners closed descriptors that it had not opened; close only your own" run.txt; verdict "${habit}_of_a_trusted_plugin" $?
done
rm -rf out; "$kiln" run w.yaml --plugins plugins --out out --cache "$work/store" >paths.txt 2>run.txt && ! grep -q warning run.txt; verdict the_cache_is_well $?
left='left 1 thread running; join them before the call ends, or use host->parallel_for()'
named thread "$left" --validate
if [ $ours -eq 1 ]; then named thread "$left"; named spins "$left"; else echo "skip thread: the sanitizer begins threads in code of its own"; fi
run --set it.habit=joins; [ $code -eq 0 ] && ! grep -q warning run.txt; verdict a_thread_that_is_waited_for $?
# With several nodes at once it is looked for when none of them runs any more.
run --set it.habit=thread --jobs 4; [ $code -eq 0 ] && [ "$(grep -c "warning: node 'it' (Manners).* $left" run.txt)" -eq 1 ]; of_threads thread_among_several_jobs $?
run --set it.habit=late; [ $code -eq 0 ] && grep -q "node 'it' (Manners) of plugin org.example.manners used its kiln_ctx after the call had ended" run.txt; verdict late $?
run --set it.habit=late_value; [ $code -eq 0 ] && [ "$(grep -c "node 'it' (Manners) of plugin org.example.manners used its kiln_ctx after the call had ended" run.txt)" -eq 1 ]; verdict late_value $?
faulted view 'plugin org.example.manners: view() was given a kiln_tensor that says it is 0 bytes; set .size = sizeof first'
if [ $ours -eq 1 ]; then
    faulted before 'plugin org.example.manners: wrote outside of a tensor or of its working memory' --validate
    faulted after 'plugin org.example.manners: \(crashed with SIGSEGV in its run(), at manners.so+0x\|wrote outside of a tensor\)' --validate
    faulted far 'plugin org.example.manners: crashed with SIGSEGV in its run(), at manners.so+0x' --validate
fi
faulted untouched "plugin org.example.manners: \|output 'image' holds a number that is not finite" --validate

# ---- a sampler that never steps
"$kiln" run "$KILN_ROOT/workflows/txt2img.yaml" --plugins plugins --models "$KILN_ROOT/workflows/models" --set steps=2 --set sampler.sampler_name=manners_never --no-cache --out never >paths.txt 2>run.txt
[ $? -ne 0 ] && grep -q "the sampler 'manners_never' returned without one call of denoise(), so nothing was sampled" run.txt && [ -z "$(ls never 2>/dev/null)" ]; verdict a_sampler_that_never_steps $?

# ---- what a plugin lends to nodes of kiln's own is looked at too, by a run and by check-plugin
lent() { # WAY: the picture's bytes are in $drawn, and its place and permissions are what they always are
    rm -rf lent; MANNERS_SAMPLER=$1 "$kiln" run "$KILN_ROOT/workflows/txt2img.yaml" --plugins plugins --models "$KILN_ROOT/workflows/models" --set steps=2 --set sampler.sampler_name=manners_lent --no-cache --out lent >paths.txt 2>run.txt &&
        [ "$(cat paths.txt)" = lent/kiln_00001_.png ] && [ "$(stat -c %a lent/kiln_00001_.png)" = 644 ] && drawn=$(cksum <lent/kiln_00001_.png)
}
lent none && ! grep -q warning run.txt; verdict a_sampler_with_good_manners $?
none=$drawn
"$kiln" check-plugin plugins/manners.so --json 2>/dev/null >paths.txt; ! grep '"process"' paths.txt | grep -q manners_lent; verdict check_plugin_finds_none $?
for row in 'umask|changed the umask from 022 to 000' 'chdir|changed the working folder' 'mask|changed the signal mask' 'handler|changed what SIGINT does' 'write|wrote to standard output' \
    'setenv|changed the environment (MANNERS_NEW)' 'close|closed or replaced standard output' "thread|left [1-9][0-9]* threads\\? running; join them before the call ends"; do
    lent "${row%%|*}" && [ "$drawn" = "$none" ] && [ "$(grep -c "warning: node 'sampler' (KSampler).* with code of plugin org.example.manners ${row#*|}" run.txt)" -eq 1 ] && [ "$(grep -c warning run.txt)" -eq 1 ]
    found=$? told=verdict
    [ "${row%%|*}" = thread ] && told=of_threads
    $told "a_sampler_${row%%|*}" $found
    MANNERS_SAMPLER=${row%%|*} "$kiln" check-plugin plugins/manners.so >paths.txt 2>run.txt
    sed -n '/^sampler manners_lent/,/^[a-z]/p' paths.txt | grep -q "FAIL process .*it ${row#*|}"; verdict "check_plugin_finds_${row%%|*}" $?
done

# A family's, in the node that loads; an op's; those that C++'s library has begun, whose first code is its own. OpenMP keeps threads for the next call, as it may.
mkdir family op cxx omp
gcc -std=c11 -D_GNU_SOURCE -DBAD=10 -O1 -w -fPIC -shared -I"$KILN_ROOT/include" "$KILN_ROOT/tests/plugin/hostile/bad_family.c" -o family/family.so -lpthread || exit 2
"$kiln" run "$KILN_ROOT/workflows/txt2img.yaml" --plugins family --models "$KILN_ROOT/workflows/models" --set steps=1 --no-cache --jobs 1 --out lent >paths.txt 2>run.txt &&
    [ "$(grep -c "warning: node '[a-z]*' ([A-Za-z]*) with code of plugin org.example.bad-family left 1 thread running" run.txt)" -eq 1 ]; of_threads a_family_that_leaves_a_thread $?
sed 's/^\( *\)float decay = ((const decay_attributes \*)c->attributes)->decay;/&\n\1static int once; pthread_t t; if (!once++) pthread_create(\&t, NULL, stays, NULL);/; 0,/#include "kiln/s//#include <pthread.h>\n#include <unistd.h>\nstatic void *stays(void *arg) { return pause(), arg; }\n&/' \
    "$KILN_ROOT/plugins/examples/trails.c" >op.c && gcc -std=c11 -D_GNU_SOURCE -O1 -w -fPIC -shared -I"$KILN_ROOT/include" op.c -o op/op.so -lm -lpthread || exit 2
"$kiln" run "$KILN_ROOT/plugins/examples/trails.yaml" --plugins op --no-cache --out lent >paths.txt 2>run.txt && grep -q "warning: node 'trails' (ExampleTrails) of plugin org.example.trails left 1 thread running" run.txt; of_threads an_op_that_leaves_a_thread $?
cat >threads.cpp <<'C'
#include "kiln/kiln.hpp"
#include <thread>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif
struct none {};
const auto node = kiln::node<none>("Manners", "Threads", "test", "Begins threads.")
                      .in("image", "IMAGE", "A picture.")
                      .out("IMAGE", "IMAGE", "The same.")
                      .run([](kiln::call &c, const none &) {
                          auto from = c.tensor<const float>(0);
                          auto to = c.new_tensor<float>(0, from.shape());
                          for (size_t i = 0; i < from.size(); i++) to[i] = from[i];
#ifdef _OPENMP
                          static volatile int n;
#pragma omp parallel num_threads(3)
                          n = omp_get_thread_num();
#else
                          for (unsigned i = 0; i < 2; i++) std::thread([i] { usleep(900000 + i); }).detach();
#endif
                      });
KILN_CPP_PLUGIN("org.example.threads", "1.0.0", "MIT", node)
C
sed 's/, habit: none//; s/class_type: Waits, inputs: {/class_type: RepeatImageBatch, inputs: {amount: 1, /' w.yaml >threads.yaml
for way in cxx omp; do
    # shellcheck disable=SC2046
    g++ -std=c++17 -O1 -w -fPIC -shared $([ $way = omp ] && echo -fopenmp) -I"$KILN_ROOT/include" threads.cpp -o $way/threads.so || exit 2
    "$kiln" run threads.yaml --plugins $way --no-cache --out lent >paths.txt 2>run.txt; code=$?
    said=$(grep -c "warning: node 'it' (Manners) of plugin org.example.threads left 2 threads running" run.txt)
    [ $code -eq 0 ] && [ "$(grep -c warning run.txt)" -eq "$said" ] && [ "$said" -eq "$([ $way = cxx ] && echo 1 || echo 0)" ]; of_threads "threads_of_$way" $?
done

# ---- a probe that crashes is remembered until the file changes
mkdir probed; export KILN_TEST_PROBES=$work/probes
cat >probed.c <<'C'
#include "kiln/plugin.h"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
static kiln_status open_plugin(const kiln_host *h)
{
    int fd = open(getenv("KILN_TEST_PROBES"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (write(fd, "x", 1) != 1) return KILN_ERR_IO;
    WAY
}
static kiln_status run(const kiln_call *c) { return (void)c, KILN_OK; }
static const kiln_node node = {.size = sizeof node, .flags = KILN_NODE_OUTPUT, .devices = KILN_CPU, .revision = 1, .type = "Probed", .doc = "Nothing.", .run = run};
KILN_PLUGIN_OPEN("org.example.probed", "1.0.0", "MIT", open_plugin, &node);
C
build() { gcc -std=c11 -D_GNU_SOURCE -O0 -w -fPIC -shared "-DWAY=$1" -I"$KILN_ROOT/include" probed.c -o probed/probed.so || exit 2; rm -f probes; }
build '_exit(3);'
"$kiln" plugins --plugins probed >run.txt 2>&1; grep -q 'ended the process with status 3 in its open(); a plugin must never exit$' run.txt && [ "$(cat probes)" = x ]; verdict a_probe_that_fails $?
"$kiln" plugins --plugins probed >run.txt 2>&1; grep -q 'ended the process with status 3 in its open(); a plugin must never exit (as it did before; it is tried again when the file changes)' run.txt && [ "$(cat probes)" = x ]; verdict is_not_tried_again $?
touch probed/probed.so; "$kiln" plugins --plugins probed >run.txt 2>&1; [ "$(cat probes)" = xx ]; verdict until_the_file_changes $?
build 'return KILN_OK;'
"$kiln" plugins --plugins probed >run.txt 2>&1; verdict and_is_taken_when_it_is_mended $?
build 'for (;;) sleep(1000);'
"$kiln" plugins --plugins probed >run.txt 2>&1; grep -q 'did not come back within 10 s in its open()' run.txt; verdict a_probe_that_hangs $?
begun=$SECONDS; "$kiln" plugins --plugins probed >run.txt 2>&1; grep -q 'did not come back within 10 s in its open().*as it did before' run.txt && [ $((SECONDS - begun)) -lt 8 ]; verdict is_remembered_too $?
exit $status
