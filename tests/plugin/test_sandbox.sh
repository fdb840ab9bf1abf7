# test_sandbox.sh - kiln run --sandbox: a plugin reaches for files, the network and other processes and is refused; every shipped workflow
# runs all the same; a picture is run so by default; a kernel that has no Landlock is said.
status=0
work=$(mktemp -d /var/tmp/kiln-test-XXXXXX)
trap 'rm -rf "$work"' EXIT
umask 022
ulimit -c 0
unset KILN_PLUGIN_PATH KILN_CACHE KILN_MODELS KILN_INPUT XDG_CACHE_HOME
kiln="$KILN_ROOT/$KILN_BUILD/kiln"
export HOME="$work/home" KILN_TEST_ELSEWHERE="$work/elsewhere" KILN_TEST_LINK="$work/in/out/link"
mkdir -p "$work/home" "$work/in/plugins" && cd "$work/in" || exit 2
echo secret >"$HOME/.secret"
gcc -std=c11 -D_GNU_SOURCE -O0 -w -fPIC -shared -I"$KILN_ROOT/include" "$KILN_ROOT/tests/plugin/hostile/reaching.c" -o plugins/reaching.so || exit 2
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else tail -n 20 run.txt; echo "FAIL $1"; status=1; fi
}
# A process that finds no Landlock.
cat >none.c <<'C'
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    struct sock_filter f[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 444, 0, 1),
                              BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog p = {4, f};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p)) return 1;
    execv(argv[1], argv + 1);
    return argc;
}
C
gcc -w none.c -o none || exit 2
printf 'kiln: 1\nnodes:\n  it: {class_type: Reaching, inputs: {way: nothing}}\n' >w.yaml
./none "$kiln" run w.yaml --plugins plugins --sandbox >run.txt 2>&1
[ $? -eq 2 ] && grep -q 'kiln: error: --sandbox: this kernel has no Landlock (Linux 5.13 or later, with landlock among its `lsm=`); nothing was run' run.txt; verdict no_landlock_is_said $?
"$kiln" run w.yaml --plugins plugins --sandbox >run.txt 2>&1; code=$?
if [ $code -eq 2 ] && grep -q 'this kernel' run.txt; then echo "skip sandbox: $(cat run.txt)"; exit $status; fi
verdict a_plugin_that_reaches_for_nothing $code
for way in passwd home secret tcp udp unix tmp environ kill link truncate list chmod chown times attribute; do
    rm -rf "$HOME/written" "$KILN_TEST_ELSEWHERE" out; mkdir -p out; chmod 600 "$HOME/.secret"
    trust=; [ $way = kill ] || [ $way = environ ] || trust="--trust all"
    "$kiln" run w.yaml --plugins plugins --sandbox --set it.way=$way $trust >run.txt 2>&1
    [ $? -eq 1 ] && grep -q "node 'it' (Reaching): refused: \(Permission denied\|Operation not permitted\|Invalid cross-device link\)" run.txt &&
        [ ! -e "$HOME/written" ] && [ ! -e "$KILN_TEST_ELSEWHERE" ] && [ ! -e "$KILN_TEST_LINK" ] && [ "$(cat "$HOME/.secret")" = secret ] && [ "$(stat -c %a "$HOME/.secret")" = 600 ]; verdict "refused_$way" $?
    [ $way = truncate ] && continue
    mkdir -p out; "$kiln" run w.yaml --plugins plugins --set it.way=$way --no-cache >run.txt 2>&1; code=$?
    if [ $way = kill ]; then # the process that watches is out of reach in any case
        [ $code -eq 1 ] && grep -q "node 'it' (Reaching): refused: Operation not permitted" run.txt; verdict refused_kill_without_it $?
    else
        verdict "without_it_done_$way" $code
    fi
done

# Typing into the terminal, where the kernel still lets programs do that.
if [ "$(cat /proc/sys/dev/tty/legacy_tiocsti 2>/dev/null)" != 1 ]; then
    echo "skip refused_type: this kernel lets no program type"
else
    typed() { script -qec "'$kiln' run w.yaml --plugins plugins --no-cache --trust all --set it.way=type $1" /dev/null >run.txt 2>&1 </dev/null; }
    typed --no-sandbox; verdict without_it_done_type $?
    typed --sandbox; [ $? -eq 1 ] && grep -q "node 'it' (Reaching): refused: Operation not permitted" run.txt; verdict refused_type $?
fi
rm -rf own-cache; "$kiln" run w.yaml --plugins plugins --sandbox --cache own-cache >run.txt 2>&1 && [ "$(stat -c %a own-cache)" = 700 ]; verdict a_new_cache_is_private $?

# ---- every workflow that ships runs in it, to the same pictures
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" # its list of suppressions cannot be read in there
case $KILN_BUILD in *-address | *-thread) flows=$(ls "$KILN_ROOT"/workflows/{txt2img,hires-fix,lora}.yaml) ;; *) flows=$(ls "$KILN_ROOT"/workflows/*.yaml) ;; esac
while read -r flow; do
    name=$(basename "$flow" .yaml); short=
    grep -q '^  steps:' "$flow" && short="--set steps=1"
    "$kiln" run "$flow" $short --no-cache -q --out "plain/$name" >plain.txt 2>&1; want=$?
    "$kiln" run "$flow" $short --no-cache -q --out "boxed/$name" --sandbox >run.txt 2>&1; got=$?
    if [ $want -ne 0 ]; then # what it wants is not shipped: then the same is said
        sed 's/boxed/plain/g' run.txt | cmp -s - plain.txt && [ $got -eq $want ]; verdict "as_without_$name" $?
        continue
    fi
    [ $got -eq 0 ] && diff -r "plain/$name" "boxed/$name" >>run.txt 2>&1; verdict "runs_$name" $?
done <<<"$flows"

# ---- a picture is run in it by default: it reads its folder's pictures and models, and nothing else
mkdir -p got own; cp plain/txt2img/kiln_00001_.png got/theirs.png
"$kiln" run got/theirs.png --no-cache -q --out again >run.txt 2>&1 && [ -s again/kiln_00001_.png ]; verdict a_picture_runs $?
printf 'kiln: 1\nnodes:\n  load: {class_type: LoadImage, inputs: {image: %s}}\n  save: {class_type: SaveImage, inputs: {images: [load, 0], filename_prefix: p}}\n' "$HOME/mine.png" >w2.yaml
cp got/theirs.png "$HOME/mine.png"; "$kiln" run w2.yaml --no-cache -q --out theirs >run.txt 2>&1; verdict a_workflow_that_reads_a_file_of_mine $?
rm -rf theirs2; "$kiln" run theirs/p_00001_.png --no-cache -q --out theirs2 >run.txt 2>&1
[ $? -ne 0 ] && [ -z "$(find theirs2 -name '*.png' 2>/dev/null)" ] && grep -q 'Permission denied' run.txt && grep -q 'kiln: this picture ran in a sandbox, where it reads models and inputs alone; --no-sandbox lifts it' run.txt; verdict its_picture_does_not $?
"$kiln" run theirs/p_00001_.png --no-cache -q --out theirs2 --no-sandbox >run.txt 2>&1; verdict unless_it_is_lifted $?
"$kiln" run theirs/p_00001_.png --no-cache -q --out theirs3 --set "load.image=$HOME/mine.png" >run.txt 2>&1; verdict or_the_file_is_named_on_the_command_line $?
./none "$kiln" run got/theirs.png --no-cache -q --out nowhere >run.txt 2>&1; verdict without_landlock_a_picture_runs_as_before $?

# ---- what a run writes besides
"$kiln" run got/theirs.png --no-cache -q --out o --events e.jsonl --trace t.json --preview v.png --sandbox >run.txt 2>&1 && [ -s e.jsonl ] && [ -s t.json ] && [ -s v.png ]; verdict events_trace_and_preview $?
"$kiln" run "$KILN_ROOT/workflows/txt2img.yaml" --set steps=1 --over seed=1,2 --sheet s.png --manifest m.jsonl --cache c --out o2 -q --sandbox >run.txt 2>&1 && [ -s s.png ] && [ "$(wc -l <m.jsonl)" -eq 2 ] && [ -n "$(ls c)" ]; verdict sheet_manifest_and_cache $?
"$kiln" run "$KILN_ROOT/workflows/txt2img.yaml" --set steps=1 -o one.png -q --sandbox --no-cache >run.txt 2>&1 && [ -s one.png ]; verdict one_file $?
mkdir -p linked/models elsewhere2; cp -r "$KILN_ROOT/workflows/models" elsewhere2/; for kind in elsewhere2/models/*; do ln -s "$work/in/$kind" "linked/models/$(basename "$kind")"; done
cp "$KILN_ROOT/workflows/txt2img.yaml" linked/; "$kiln" run linked/txt2img.yaml --set steps=1 -q --sandbox --no-cache --out o3 >run.txt 2>&1; verdict models_behind_links $?
"$kiln" run w.yaml --sandbox --no-sandbox >run.txt 2>&1; [ $? -eq 2 ] && grep -q -- '--sandbox and --no-sandbox: which?' run.txt; verdict both_at_once $?
exit $status
