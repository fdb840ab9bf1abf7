# test_memory.sh - a memory budget as its users meet it: the same picture at every budget, one that is too small refused
# before anything runs with the least that works, and that least one working.
. "$KILN_ROOT/tests/cli/head.sh"
export XDG_CACHE_HOME="$work/cache"
draw() { "$kiln" run workflows/txt2img.yaml --set steps=2 --no-cache "$@"; }

expect memory_without_a_budget 0 "" draw --out "$work/free" --precision f32
expect memory_explained 0 "is the least that works" draw --explain --precision f32
least=$(sed -n 's/.*; \([0-9.]*\) MB is the least that works.*/\1/p' "$work/stdout")
check memory_least_is_a_number [ -n "$least" ]

# ---- too small: nothing runs, and the number it names works
expect memory_too_small 1 "is too small for this workflow" draw --out "$work/small" --precision f32 --memory 1M
check memory_too_small_runs_nothing [ ! -s "$work/stdout" ]
needed=$(sed -n 's/.*give --memory \([0-9]*M\) or more.*/\1/p' "$work/log")
check memory_too_small_names_the_least [ -n "$needed" ]
expect memory_the_least_works 0 "memory budget" draw --out "$work/least" --precision f32 --memory "$needed"
expect memory_more_works 0 "" draw --out "$work/more" --precision f32 --memory "$((${needed%M} + 4))M"
for precision in auto bf16; do # where products are of that type their weights are packed another way
    draw --precision $precision --memory 1M --out "$work/least_$precision" >/dev/null 2>"$work/log"
    exact=$(sed -n 's/.*give --memory \([0-9]*\)M or more.*/\1/p' "$work/log")
    expect "memory_the_least_works_$precision" 0 "memory budget" draw --out "$work/least_$precision" --precision $precision --memory "${exact:-none}M"
    draw --precision $precision --out "$work/free_$precision" >/dev/null 2>"$work/log"
    check "memory_same_picture_least_$precision" cmp "$work/free_$precision/kiln_00001_.png" "$work/least_$precision/kiln_00001_.png"
done

# ---- a picture whose decode goes in stripes at the least budget: it works, and its bytes are the same (docs/memory.md says where not)
large="--set steps=1 --set empty.width=512 --set empty.height=512"
# shellcheck disable=SC2086
draw $large --memory 1M --out "$work/large" >/dev/null 2>"$work/log"
exact=$(sed -n 's/.*give --memory \([0-9]*M\) or more.*/\1/p' "$work/log")
# shellcheck disable=SC2086
expect memory_stripes_at_the_least 0 "it is decoded in stripes" draw $large --memory "${exact:-none}" --out "$work/large"
# shellcheck disable=SC2086
expect memory_large_without_a_budget 0 "" draw $large --out "$work/large_free"
if grep -qw avx2 /proc/cpuinfo && ! grep -qw avx512f /proc/cpuinfo; then
    echo "skip memory_same_picture_in_stripes: a processor with AVX2 and no AVX-512"
else
    check memory_same_picture_in_stripes cmp "$work/large/kiln_00001_.png" "$work/large_free/kiln_00001_.png"
fi
expect memory_from_the_environment 0 "memory budget" env KILN_MEMORY="$needed" "$kiln" run workflows/txt2img.yaml --set steps=2 --no-cache --out "$work/env" --precision f32
for budget in least more env; do check "memory_same_picture_$budget" cmp "$work/free/kiln_00001_.png" "$work/$budget/kiln_00001_.png"; done
expect memory_explained_with_a_budget 0 "through slots of" draw --explain --precision f32 --memory "$needed"
expect memory_explained_too_small 0 "is too small" draw --explain --precision f32 --memory 1M

# ---- the key of a result has nothing of the budget
"$kiln" run workflows/txt2img.yaml --set steps=2 --cache "$work/cache" --out "$work/one" >"$work/stdout" 2>"$work/log"
expect memory_budget_is_no_part_of_keys 0 "" "$kiln" run workflows/txt2img.yaml --set steps=2 --cache "$work/cache" --out "$work/two" --memory 200M --events "$work/events"
check memory_second_run_computes_nothing grep -q '"cached": *true' "$work/events"

# ---- a sweep keeps its budget too
expect memory_sweep 0 "" draw --out "$work/sweep" --precision f32 --over seed=1,2 --memory "$needed"
expect memory_sweep_too_small 1 "is too small for this workflow" draw --out "$work/sweep2" --precision f32 --over seed=1,2 --memory 1M

# ---- nodes that hold tensors beside each other: they run one after the other where there is just enough
{
    echo "nodes:"
    for i in 1 2 3 4 5 6; do
        echo "  e$i: {class_type: EmptyImage, inputs: {width: 512, height: 512, batch_size: 1, color: $i}}"
        echo "  i$i: {class_type: ImageInvert, inputs: {image: [e$i, 0]}}"
        echo "  s$i: {class_type: ImageScale, inputs: {image: [i$i, 0], upscale_method: bilinear, width: 640, height: 640, crop: disabled}}"
        echo "  p$i: {class_type: SaveImage, inputs: {images: [s$i, 0], filename_prefix: p$i}}"
    done
} >"$work/beside.yaml"
"$kiln" run "$work/beside.yaml" --no-cache --memory 1M --out "$work/beside" >"$work/stdout" 2>"$work/log"
exact=$(sed -n 's/.*give --memory \([0-9]*M\) or more.*/\1/p' "$work/log")
check memory_beside_each_other_has_a_least [ -n "$exact" ]
for i in 1 2 3 4; do expect "memory_beside_each_other_$i" 0 "" "$kiln" run "$work/beside.yaml" --no-cache --memory "${exact:-none}" --out "$work/beside$i"; done

# ---- what is no size
for size in 0 4X -1 lots; do expect "memory_not_a_size_$size" 2 "it is a size like" draw --out "$work/no" --memory "$size"; done
expect memory_environment_not_a_size 2 "KILN_MEMORY=lots" env KILN_MEMORY=lots "$kiln" run workflows/txt2img.yaml --out "$work/no"
exit $status
