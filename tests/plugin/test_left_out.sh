# test_left_out.sh - plugins that do harm outside of every call: in a thread that a constructor or open() starts, in handlers, in what
# the watching process reads. Neither kiln's own picture nor that of another plugin's node is lost, and nothing hangs.
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ulimit -c 0
export XDG_CACHE_HOME="$work/xdg" TMPDIR="$work/tmp" KILN_LEFT_OUT="$work/out"
unset KILN_PLUGIN_PATH KILN_CACHE
kiln="$KILN_ROOT/$KILN_BUILD/kiln"
cd "$work" || exit 2
mkdir tmp two
case $KILN_BUILD in *-address | *-thread) echo "skip left_out: the sanitizers tell of crashes themselves"; exit 0 ;; esac
for name in Bad Good; do
    gcc -std=c11 -D_GNU_SOURCE -O0 -g -w -fPIC -shared -DLEFT_NAME=$name -I"$KILN_ROOT/include" "$KILN_ROOT/tests/plugin/hostile/left_out.c" -o two/$name.so -lpthread || exit 2
done
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else tail -n 30 run.txt; echo "code $code"; echo "FAIL $1"; status=1; fi
}
# Three pictures: kiln's own, one that another plugin's node hands on, and one that the harmful plugin's does.
cat >w.yaml <<'Y'
kiln: 1
nodes:
  blank: {class_type: EmptyImage, inputs: {width: 300, height: 200, batch_size: 1, color: 3368601}}
  noise: {class_type: ImageAddNoise, inputs: {image: [blank, 0], seed: 3, strength: 0.5}}
  large: {class_type: ImageScaleBy, inputs: {image: [noise, 0], upscale_method: lanczos, scale_by: 5}}
  save: {class_type: SaveImage, inputs: {images: [large, 0], filename_prefix: p}}
  good: {class_type: Good, inputs: {image: [noise, 0]}}
  save good: {class_type: SaveImage, inputs: {images: [good, 0], filename_prefix: good}}
  bad: {class_type: Bad, inputs: {image: [noise, 0]}}
  save bad: {class_type: SaveImage, inputs: {images: [bad, 0], filename_prefix: bad}}
Y
run() { # WHERE WAY [OPTIONS...]
    local what="$1 $2"; shift 2
    rm -rf out cache
    code=$(KILN_LEFT_Bad=$what setsid -w timeout -k 1 60 bash -c 'kiln=$0; "$kiln" run w.yaml --plugins two --out out --node-timeout 3 "$@" 3>&-; echo $? >code' "$kiln" "$@" 2>&1 >paths.txt </dev/null | cat >run.txt; cat code; rm -f code)
}
is_kept() { cmp -s "out/$1_00001_.png" "right/$1_00001_.png" && [ "$(grep -c "out/$1_" paths.txt)" -eq 1 ]; }
each_once() { [ "$(sort paths.txt | uniq -d | wc -l)" -eq 0 ] && [ "$(find out -name '*.png' | wc -l)" -eq "$(grep -c 'png$' paths.txt)" ]; }
run never nothing --cache cache
cp -r out right; [ "$code" = 0 ] && [ "$(ls right | wc -l)" -eq 3 ]; verdict nothing $?
# others WHERE WAY STATUSES PATTERN: the others' pictures are kept, and it is said
others() {
    local where=$1 way=$2 codes=$3 pattern=$4; shift 4
    run "$where" "$way" "$@"
    [[ " $codes " == *" $code "* ]] && is_kept p && is_kept good && each_once && grep -q "$pattern" run.txt; verdict "${where}_$way" $?
}
# all WHERE WAY: nothing is lost
all() { run "$1" "$2" --cache cache; [ "$code" = 0 ] && is_kept p && is_kept good && is_kept bad && each_once; verdict "$1_$2" $?; }
left='kiln: error: plugin org.example.Bad (Bad.so) is left out of this run: outside of its nodes it'
fails="kiln: error: node 'bad' (Bad): plugin org.example.Bad: "

# ---- threads that end each process they are in
for where in constructor open; do
    others $where ends '1 3' "$left ended the process\|$fails.*ended the process with status 0" --cache cache
    others $where kills '1 3' "$left was killed (SIGKILL)\|$fails.*was killed" --no-cache
    others $where crashes '1 3' "plugin org.example.Bad: outside of its nodes: crashed with SIGSEGV" --cache cache
done
others open aborts '1 3' "plugin org.example.Bad: outside of its nodes: crashed with SIGABRT" --cache cache
others constructor ends_soon '1 3' 'Bad.so is not loaded: it ended the process with status 0 in its load()' --cache cache
grep -q "$fails.*is not loaded: it ended the process" run.txt; verdict its_nodes_are_known $?
others run ends '1 3' "Bad" --cache cache
# ---- while another plugin is being loaded, which is blamed no more than kiln's own would be
export KILN_LEFT_Good='constructor naps'
others constructor ends '1 3' "$left ended the process" --no-cache
grep -q "Good.so is not loaded" run.txt; verdict a_plugin_being_loaded_is_not_blamed $((! $?))
others constructor ends '1 3' "Good.so, which is kiln's own, ended the process" --no-cache --trust Good
unset KILN_LEFT_Good

# ---- a sampler of such a plugin's: its name is known, so that the workflow has no fault
cp w.yaml plain.yaml
cat >>w.yaml <<'Y'
  select: {class_type: KSamplerSelect, inputs: {sampler_name: left_Bad}}
  show: {class_type: PreviewAny, inputs: {source: [select, 0]}}
Y
export KILN_LEFT_SAMPLER=1 XDG_CACHE_HOME="$work/xdg2" # where a table that names the sampler is kept
# Whether its node ran before the end came is a matter of time; no end leaves a fault of the workflow.
others constructor ends '3' "] show (PreviewAny)\|node 'select' (KSamplerSelect): its sampler_name is plugin org.example.Bad's, which is left out" --cache cache
unset KILN_LEFT_SAMPLER
XDG_CACHE_HOME="$work/xdg"
mv plain.yaml w.yaml

# ---- what hangs where no call is
others constructor holds_heap '0 1 3' '' --cache cache
others open loops '1 3' "Bad.so is not loaded: it gave no sign of life for 3 s in its open()" --cache cache
others constructor loops '1 3' "Bad.so is not loaded: it gave no sign of life for 3 s in its load()" --cache cache
others open forks_hang '0 1 3' '' --cache cache
others open exit_loops '1 3' 'a plugin keeps the process from ending' --cache cache
all open loops_beside

# ---- what the watching process reads
for where in constructor run; do
    others $where overwrites '1 3' 'over what the watching process shares with it' --no-cache
    others $where overwrites_and_ends '1 3' 'over what the watching process shares with it' --cache cache
done
others run pipe_rubbish '1 3' "Bad" --cache cache
others run pipe_full '0 1 3' '' --cache cache
others open pipe_closed '1 3' "Bad" --cache cache

# ---- the process and its memory
for way in other_session no_memory_left openmp preloads threads; do all open $way; all run $way; done
all run hangs_up
others run protects_heap '0 1 3' '' --cache cache
others run unmaps_heap '0 1 3' '' --cache cache
if command -v script >/dev/null; then
    rm -rf out
    KILN_LEFT_Bad="run terminal" timeout -k 1 60 script -qec "stty sane; '$kiln' run w.yaml --plugins two --out out --no-cache; echo code \$?; stty -a" typed.txt >run.txt 2>&1 </dev/null
    grep -q 'code 0' run.txt && grep -q ' icanon' run.txt && grep -q ' echo ' run.txt && grep -q 'a plugin changed the modes of the terminal; they were put back' run.txt; verdict run_terminal $?
else
    echo "skip run_terminal: no script(1) makes a terminal"
fi

# ---- functions that are called without a process to itself
for way in sleeps strikes ends_soon; do others names $way '1 3' "$left\|plugin org.example.Bad: outside of its nodes" --cache cache; done

# ---- pictures that are taken away while it runs: that is said, and the status is not 0
for way in removes_pictures empties_pictures; do
    run open $way --cache cache
    # by the thread's time, before the process ends or while it does
    [ "$code" = 1 ] && is_kept p && grep -q 'kiln: error: .*good_00001_.png was written, and is gone or changed since; a plugin may have done that\|while the process of the run ended, a file that it had written was changed or taken away; a plugin' run.txt; verdict "$way" $?
done

# ---- functions of others' names: a plugin's own are nobody else's
gcc -std=c11 -D_GNU_SOURCE -O0 -g -w -fPIC -shared -DLEFT_NAME=Loud -DLEFT_INTERPOSES -fno-builtin -I"$KILN_ROOT/include" "$KILN_ROOT/tests/plugin/hostile/left_out.c" -o two/Loud.so -lpthread || exit 2
all never interposes

exit $status
