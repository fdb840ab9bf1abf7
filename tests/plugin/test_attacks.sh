# test_attacks.sh - what a node leaves behind (timers, threads, processes, stops, limits, exit handlers) costs no other node of the
# run its result: the sibling's picture has the bytes it always has, the status is 0 or says what was lost, and nothing stays running.
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ulimit -c 0
export XDG_CACHE_HOME="$work/xdg" TMPDIR="$work/tmp" KILN_ATTACK_OUT="$work/out" KILN_ATTACK_CACHE="$work/cache"
unset KILN_PLUGIN_PATH KILN_CACHE
kiln="$KILN_ROOT/$KILN_BUILD/kiln"
cd "$work" || exit 2
mkdir tmp plugins
case $KILN_BUILD in *-address | *-thread) echo "skip attacks: the sanitizers tell of crashes themselves"; exit 0 ;; esac
gcc -std=c11 -D_GNU_SOURCE -O0 -g -w -fPIC -shared -I"$KILN_ROOT/include" "$KILN_ROOT/tests/plugin/hostile/attack.c" -o plugins/attack.so -lpthread || exit 2
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else tail -n 30 run.txt; echo "FAIL $1"; status=1; fi
}
# Everything is over when nobody holds the end of the pipe any more, which a process that is left does.
run() { # TYPE [INPUTS]
    rm -rf out cache moved-away
    cat >w.yaml <<Y
kiln: 1
nodes:
  attack: {class_type: $1$2}
  blank: {class_type: EmptyImage, inputs: {width: 300, height: 200, batch_size: 1, color: 3368601}}
  noise: {class_type: ImageAddNoise, inputs: {image: [blank, 0], seed: 3, strength: 0.5}}
  large: {class_type: ImageScaleBy, inputs: {image: [noise, 0], upscale_method: lanczos, scale_by: 2.5}}
  save: {class_type: SaveImage, inputs: {images: [large, 0], filename_prefix: p}}
Y
    code=$(setsid -w timeout -k 1 40 bash -c '"$0" run w.yaml --plugins plugins --out out --cache cache --node-timeout 3 --jobs 1 3>&-; echo $? >code' "$kiln" 2>&1 >paths.txt </dev/null | cat >run.txt; cat code; rm -f code)
}
attack() { # WAY STATUS PATTERN: "" for no word at all
    run Attack ", inputs: {way: $1}"
    [ "$code" = "$2" ] && cmp -s out/p_00001_.png right.png && [ "$(ls out | wc -l)" -eq 1 ] && grep -q "${3:-^}" run.txt && { [ -n "$3" ] || ! grep -q '^kiln: ' run.txt; }
    verdict "$1" $?
}
lost() { # WAY STATUS PATTERN: the picture is gone, which is said
    run Attack ", inputs: {way: $1}"
    [ "$code" = "$2" ] && grep -q "$3" run.txt; verdict "$1" $?
}
of="node 'attack' (Attack) of plugin org.example.attack"
by="kiln: error: node 'attack' (Attack): plugin org.example.attack:"
own="which is kiln's own, .*; a plugin that ran before it in the same process may have caused that, so it runs once more in a new one"
run Attack ", inputs: {way: nothing}"; cp out/p_00001_.png right.png; [ "$code" = 0 ] && [ -s right.png ]; verdict nothing $?

# ---- processes
attack helper_stays 0 'kiln: warning: a plugin left 1 process running when the run ended; it was ended'
attack daemon_stays 0 'kiln: warning: a plugin left 1 process running when the run ended; it was ended'
attack many_helpers 0 'kiln: warning: a plugin left 100 processes running when the run ended; they were ended'
for way in stop_self stop_process thread_stops; do attack $way 0 'kiln: the process of the run was stopped (SIGSTOP), and this one was not; it goes on'; done
if [ -e /proc/sys/kernel/seccomp ]; then
    for way in stop_parent kill_parent term_parent int_group kill_group stop_group trace_parent; do attack $way 0 ''; done
else
    echo "skip stop_parent: this kernel has no seccomp"
fi
for way in int_self term_self thread_terms; do attack $way 0 'kiln: a plugin has sent the process a signal that asks it to stop; it goes on'; done
# ---- timers and threads
for way in alarm_later itimer posix_timer; do attack $way 0 "$of left a timer running (alarm(), setitimer(), timer_create())"; done
run Attack ", inputs: {way: thread_exits}" # while it is waited for, or while another node runs
[[ $code == [13] ]] && cmp -s out/p_00001_.png right.png && grep -q "$own\|kiln: error: outside of any node, kiln or a thread that a plugin left behind ended the process\|node 'attack' (Attack): plugin org.example.attack: ended the process" run.txt; verdict thread_exits $?
attack pool_pthread_exit 3 "$by ended its thread with pthread_exit() in its run()"
attack pool_stack 3 "$by crashed with SIGSEGV (stack overflow) in its run()"
attack pool_floats 0 'changed the floating-point mode; it was put back'
attack nice_19 0 "$of changed the priority of its thread"
run Attack ", inputs: {way: jump_out}"; cmp -s out/p_00001_.png right.png; verdict jump_out $?
attack tls_hang 1 'kiln: error: plugin org.example.attack (attack.so) is left out of this run: outside of its nodes it did .* for [0-9]* s and was ended'
attack at_end_hangs 3 "$by gave no sign of life for 3 s in its run() and was ended"
attack at_end_crashes 3 "$by crashed with SIGSEGV in its run(), at attack.so+0x"
# ---- what the process has
attack all_descriptors 3 "$by left no descriptor free in its run(); nothing else can run in such a process, so it was ended"
attack seccomp_open 3 "$by took from the process the right to open files in its run()"
attack limit_stack 0 "$of changed the limit on the stack"
attack limit_threads 0 "$of changed the limit on processes"
attack nonblock 0 "$of changed the flags of standard"
if [ "$(id -u)" -eq 0 ]; then
    attack other_user 3 "$by changed the user, groups, capabilities or permitted system calls of the process in its run()"
    attack other_root 3 "$by changed the root folder of the process in its run()"
else
    echo "skip other_user: only root may"
fi
attack comma_thread 0 "$of changed the locale of its thread with uselocale(); it was put back"
attack unmap_others 1 "node 'noise' (ImageAddNoise), $own"
# ---- files
attack watcher_memory 3 "$by wrote over what the watching process shares with it in its run(); such a process is ended"
run Attack ", inputs: {way: truncate_store}"; [ "$code" = 0 ] && cmp -s out/p_00001_.png right.png; verdict truncate_store $?
lost exit_empties 1 'kiln: error: while the process of the run ended, a file that it had written was changed or taken away'
lost exit_removes 1 'kiln: error: while the process of the run ended, a file that it had written was changed or taken away'
attack rename_out 0 'kiln: warning: the output folder out was gone; it was made again'
# ---- words
attack progress_flood 0 ''
attack progress_escape 0 ''
attack log_escape 0 'kiln: warning: a\\x1b'
attack draft_escape 0 ''
for type in Null:0 Mute:3 Escape:3 Much:3 Odd:3 Cancels:3 Table:3; do
    run "Attack${type%:*}"; [ "$code" = "${type#*:}" ] && cmp -s out/p_00001_.png right.png && ! LC_ALL=C grep -q "$(printf '\033\\[2J')" run.txt; verdict "${type%:*}" $?
done
exit $status
