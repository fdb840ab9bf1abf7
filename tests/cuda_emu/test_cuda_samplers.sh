#!/usr/bin/env bash
# The samplers with their latents on the emulated CUDA device: the tests of tests/sampler that go through the nodes, against the same goldens and with
# the same demands as on the processor (every sampler resumes after every step with equal bytes: in full only, the short form has a spread of it).
set -u
cd "$KILN_ROOT" || exit 2
emu=$(realpath "$KILN_BUILD/emu/kiln-cuda-emu.so")
[ -e "$emu" ] || { echo "skip cuda_samplers: no emulation in this build"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
say() { if [ "$2" = 0 ]; then echo "ok $1"; else echo "FAIL $1"; status=1; fi; }

# there NAME [CASE ...]: a test on the device; it says how many of its cases passed
there() {
    local name=$1
    shift
    KILN_TEST_BACKEND=cuda KILN_CUDA_LIBRARY=$emu KILN_EMU_REPORT=$work/$name.report timeout -k 5 600 "$KILN_BUILD/tests/sampler/$name" "$@" >"$work/$name.out" 2>&1
    local code=$?
    [ $code = 0 ] || grep -v '^ok' "$work/$name.out" | head -n 5
    [ $code = 0 ] && grep -q '^ok' "$work/$name.out" && grep -q '^faults 0 kernel_faults 0 ' "$work/$name.report"
}

for name in test_denoise test_sampling_nodes test_resize test_noise_source test_differential_diffusion; do
    there $name
    say "${name}_on_the_device" $?
done
there test_model_ranges test_split_at_every_step_is_one_pass test_by_step_is_two_stages
say two_models_on_the_device $?
if [ -n "${KILN_TEST_FULL:-}" ]; then
    there test_resume
    say test_resume_on_the_device $?
    there test_option_nodes
    say test_option_nodes_on_the_device $?
else
    there test_resume test_stopped_after_a_step test_stopped_anywhere test_a_state_that_cannot_be_saved test_a_state_that_does_not_fit_is_reported_once test_without_a_store
    say a_stopped_sampling_resumes_on_the_device $?
fi
exit $status
