# test_killed.sh - a run that is killed in the night goes on in the morning: kill -9 (and Ctrl-C) in the middle of sampling, then the
# same command again: it begins after the step the state was of, and the pixels are those of an undisturbed run.
. "$KILN_ROOT/tests/cli/head.sh"
first_step() { sed -n 's/.*"what": "step", "done": \([0-9]*\).*/\1/p' "$1" | head -n 1; }
# A shell's background jobs ignore Ctrl-C unless told otherwise.
draw() { exec env --default-signal=INT "$kiln" run workflows/txt2img.yaml -q --set steps=30 --events "$work/events" "$@"; }

# Until a step was reported; a state is due after each; the run must not have ended before.
killed() { # SIGNAL SETTINGS...
    local signal=$1 pid; shift
    rm -rf "$work/cache" "$work/cut" "$work/events"
    (draw --cache "$work/cache" --save-state 0.000001 --out "$work/cut" "$@") >/dev/null 2>"$work/log" & pid=$!
    for _ in $(seq 1000); do [ -n "$(first_step "$work/events" 2>/dev/null)" ] && break; sleep 0.01; done
    sleep 0.1
    kill "-$signal" $pid 2>/dev/null; wait $pid 2>/dev/null
    [ -z "$(find "$work/cut" -name '*.png' 2>/dev/null)" ]
}

goes_on() { # NAME SIGNAL SETTINGS...
    local name=$1 signal=$2 whole rest begun; shift 2
    whole=$(draw --no-cache --out "$work/whole" "$@" 2>"$work/log")
    for try in 1 2 3 4 5; do killed "$signal" "$@" && break; done || { bad "$name" "could not be stopped before its end"; return; }
    rest=$(draw --cache "$work/cache" --out "$work/rest" "$@" 2>>"$work/log")
    begun=$(first_step "$work/events")
    if [ -s "$whole" ] && [ -s "$rest" ] && [ "${begun:-0}" -gt 1 ] && [ "$(pixels "$whole")" = "$(pixels "$rest")" ]; then ok "$name"
    else bad "$name" "begun at step '${begun:-?}', '$whole' and '$rest' $(tail -n 3 "$work/log")"; fi
}

goes_on killed_dpmpp_2m_sde_gpu KILL --set sampler.sampler_name=dpmpp_2m_sde_gpu
goes_on killed_uni_pc KILL --set sampler.sampler_name=uni_pc
goes_on killed_cuda_noise KILL --set sampler.sampler_name=ddpm --set sampler.noise_source=cuda_all
goes_on interrupted_euler_ancestral INT --set sampler.sampler_name=euler_ancestral --set seed=18446744073709551615
exit $status
