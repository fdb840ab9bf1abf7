# test_cuda_model.sh - scripts/cuda-model over the emulation: every op of SD1.5's programs has a kernel and a time, what is asked for is looked at, and measurements are held against it.
. "$KILN_ROOT/tests/cli/head.sh"
model() { # OPTION...
    KILN_BUILD="$KILN_BUILD" "$KILN_ROOT/scripts/cuda-model" "$@" >"$work/out" 2>"$work/err"
}
model --way wgmma --rows 0; same status $? 0
check both_programs [ "$(grep -c 'ms by the model' "$work/out")" -eq 2 ]
check each_kernel_has_its_name grep -q '^| conv2d 2x64x64x320 320x320x3x3 320 .*| wgmma | [0-9.]* | [0-9]* | ' "$work/out"
check attention_knows_its_heads grep -q '^| attention 2x4096x320 .*, 8 heads | 5 | attention | ' "$work/out"
step() { sed -n 's/^sd15 unet, .*: \([0-9.]*\) ms by the model.*/\1/p' "$work/out"; }
wgmma=$(step)
model --way mma --rows 0; same mma_status $? 0
check mma_takes_longer awk "BEGIN { exit !($(step) > $wgmma && $wgmma > 1) }"
check no_wgmma_by_mma [ "$(grep -c '| wgmma |' "$work/out")" -eq 0 ]
# twice what the model says, of one op
us=$(sed -n 's/^| conv2d 2x64x64x320 320x320x3x3 320 -> 2x64x64x320 | 2 | mma | \([0-9.]*\) .*/\1/p' "$work/out")
printf '[{"family": "sd15", "ops": [{"part": "unet", "op": "conv2d 2x64x64x320 320x320x3x3 320 -> 2x64x64x320", "ways": {"mma": {"us": %s}}}]}]' "$(awk "BEGIN { print 2 * $us }")" >"$work/measured.json"
model --way mma --rows 0 --against "$work/measured.json"; same against_status $? 0
check the_sum_is_twice grep -q 'measured over the model: 2.00, of 1 of' "$work/out"
model --families sd9; same no_such_family $? 2
check says_which grep -q 'sd9: there are sd15, sdxl, refiner' "$work/err"
model --way wgmma --chip A100; same no_such_way $? 2
KILN_CUDA_LIBRARY=/nowhere.so model; same no_library $? 1
check says_what_builds_it grep -q 'there is no /nowhere.so; `make tests` builds it' "$work/err"
exit "$status"
