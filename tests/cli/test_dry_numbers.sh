# test_dry_numbers.sh - an estimate (--explain, --dry-run, a budget's) computes nothing, so no node may check the values of its inputs: the output of a
# program is zeros then, and not what the memory held before, which was NaN in 29 of these 40 runs.
. "$KILN_ROOT/tests/cli/head.sh"
"$kiln" run workflows/txt2img.yaml --models tests/golden --set model.ckpt_name=tiny-sd1 --set empty.width=64 --set empty.height=64 --set steps=1 -q --out "$work" >/dev/null 2>&1
failed=0
for i in $(seq 20); do
    for mode in --explain --dry-run; do
        "$kiln" run workflows/img2img.yaml --models tests/golden --set model.ckpt_name=tiny-sd1 --set "image=$work/kiln_00001_.png" --set "seed=$i" $mode >/dev/null 2>"$work/log" || { failed=$((failed + 1)); cat "$work/log"; }
    done
done
if [ $failed = 0 ]; then echo "ok an_estimate_judges_no_values"; else echo "FAIL an_estimate_judges_no_values: $failed of 40"; exit 1; fi
