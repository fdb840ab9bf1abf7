# test_shipped_workflows.sh - every workflow that ships draws what it says, in pixels: the judge looks at what came out. A workflow that has
# no row here fails the test.
# shellcheck source=tests/cli/head.sh
. "$KILN_ROOT/tests/cli/head.sh"
export XDG_CACHE_HOME="$work/cache"
judge="$PWD/$KILN_BUILD/tests/judge/judge"
done_list=" "

# draw NAME [option ...]: the workflow runs; $drawn are its pictures
draw() {
    local name=$1; shift
    done_list+="$name "
    drawn=$("$kiln" run "workflows/$name.yaml" --quiet --out "$work/out" "$@" 2>"$work/log")
}
# shows NAME PROMPT [option ...]: what the workflow draws shows the prompt
shows() {
    local name=$1 prompt=$2; shift 2
    draw "$name" "$@" && "$judge" "$(head -n 1 <<<"$drawn")" "$prompt" >>"$work/log"
    verdict "$name${1:+_${*//[^a-z0-9=]/_}}" $?
}

two="a red circle above a blue square"
shows txt2img "$two"
shows custom_sampling "$two"
shows refined "$two"
shows lora "$two on a black background"
shows turbo "$two"
shows lora-stack "$two on a black background"
shows embedding "a purple star above a blue square"
draw embedding --set 'prompt=a embedding:jewel' --over seed=1,2,3,4,5,6,7,8,9,10 # docs/models/shapes.md has a hundred
"$judge" --list <(sed 's/$/\ta purple star/' <<<"$drawn") --at-least 9 >>"$work/log"; verdict embedding_nine_of_ten $?
shows merge "$two"
shows merge "$two on a black background" --set ratio=0
# a few words become a caption, and the picture shows what that says
for seed in 1 2 3; do
    draw story --set seed=$seed
    caption=$(cat "$work/out/"story_*.txt | tail -n 1); rm -f "$work/out/"story_*.txt
    grep -qE '^an? [a-z]+ (circle|square|triangle|star|ring|cross) (above|below|left of|right of) an? [a-z]+ [a-z]+' <<<"$caption"; verdict "story_caption_$seed" $?
    "$judge" "$(grep '\.png$' <<<"$drawn")" "$caption" >>"$work/log"; verdict "story_picture_$seed" $?
done
draw story --set seed=1 --set 'prompt=a blue circle and something else'
grep -q 'blue circle' "$work/out/"story_*.txt; verdict story_keeps_what_was_asked $?
draw several
wanted=("a red circle" "a blue square" "a yellow triangle")
n=0
while read -r picture; do "$judge" "$picture" "${wanted[n]}" >>"$work/log"; verdict "several_$((++n))" $?; done <<<"$drawn"

# along edges: the things overlap with those of the picture that gave them; at strength 0 it is as without
overlaps() { # PICTURE WITH AT_LEAST: intersection over union of their things
    local got; got=$("$judge" --overlap "$1" "$2"); echo "overlap $got" >>"$work/log"
    awk -v g="${got:-0}" -v w="$3" 'BEGIN { exit !(g + 0 >= w) }'
}
shows controlnet "a red star above a green ring on a black background"
overlaps "$drawn" workflows/pictures/shapes.png 0.7; verdict controlnet_follows_the_edges $?
draw controlnet --set strength=0 --set cfg=4 --set "prompt=$two" # as txt2img
unsteered=$(pixels "$drawn")
draw txt2img
same controlnet_strength_0_is_without "$unsteered" "$(pixels "$drawn")"
shows two-controlnets "a cyan star above a yellow ring on a black background"
overlaps "$drawn" workflows/pictures/shapes.png 0.7; verdict two_controlnets_follow_the_edges $?
shows ip-adapter "a green triangle left of a red circle on a beige background"
draw ip-adapter --set weight=0 --set "prompt=$two"
same ip_adapter_weight_0_is_without "$(pixels "$drawn")" "$unsteered"
shows lora "$two on a beige background" --set night.lora_name=shapes-sand-lokr.safetensors
shows lora "$two on a gray background" --set night.lora_name=shapes-fog-dora.safetensors

# a batch: each picture, and one of them alone is the same
draw batch && [ "$(wc -l <<<"$drawn")" = 4 ]; verdict batch_of_four $?
while read -r picture; do "$judge" "$picture" "a purple ring" >>"$work/log"; verdict "batch_$(basename "$picture" _.png)" $?; done <<<"$drawn"
third=$(sed -n 3p <<<"$drawn")
draw batch --set first=2 --set count=1
same batch_one_alone "$(pixels "$drawn")" "$(pixels "$third")"

# halves of a wide picture
half() { # PICTURE X: a half of it, as a picture of its own
    printf '{"1": {"class_type": "LoadImage", "inputs": {"image": "%s"}},
 "2": {"class_type": "ImageCrop", "inputs": {"image": ["1", 0], "width": 128, "height": 128, "x": %s, "y": 0}},
 "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "half"}}}' "$1" "$2" >"$work/half.json"
    "$kiln" run "$work/half.json" --quiet --out "$work/out" 2>>"$work/log"
}
draw regional
wide=$drawn
"$judge" "$(half "$wide" 0)" "$two" >>"$work/log"; verdict regional_left $?
"$judge" "$(half "$wide" 128)" "a green star above a yellow triangle" >>"$work/log"; verdict regional_right $?

shows hires-fix "$two"
draw hires-fix --set in_pixels=false; [ -s "$drawn" ]; verdict hires_in_latents $?
shows upscale "$two"
same upscale_is_twice_as_large "$(python3 -I -c 'import struct, sys; print(*struct.unpack(">II", open(sys.argv[1], "rb").read(24)[16:]))' "$drawn")" "256 256"

# ---- with a picture to begin with
draw txt2img --set 'prompt=a red circle left of a blue square'
begun=$PWD/nowhere; [ -s "$drawn" ] && begun=$drawn
shows img2img "a red circle left of a green star" --set image="$begun" --set 'prompt=a red circle left of a green star' --set denoise=0.9
shows inpaint "a red circle left of a green star" --set image="$begun"
left_half() { printf '{"1": {"class_type": "LoadImage", "inputs": {"image": "%s"}},
 "2": {"class_type": "ImageCrop", "inputs": {"image": ["1", 0], "width": 64, "height": 128, "x": 0, "y": 0}},
 "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "left"}}}' "$1" >"$work/left.json"
    pixels "$("$kiln" run "$work/left.json" --quiet --out "$work/out" 2>>"$work/log")"; }
same inpaint_keeps_what_is_not_masked "$(left_half "$drawn")" "$(left_half "$begun")"
shows outpaint "a red circle left of a green star" --set image="$begun"

# ---- SDXL's kind
shows sdxl "$two"
alone=$(pixels "$drawn")
shows sdxl-base-refiner "$two"
draw sdxl-base-refiner --set handover=20 # the refiner has no step left
same base_alone_is_the_base "$(pixels "$drawn")" "$alone"
draw sdxl-controlnet --set strength=0 --set cfg=4 --set "prompt=$two" # as sdxl
same sdxl_controlnet_strength_0_is_without "$(pixels "$drawn")" "$alone"
shows sdxl-controlnet "a red star above a green ring on a black background"
overlaps "$drawn" workflows/pictures/shapes.png 0.55; verdict sdxl_controlnet_follows_the_edges $?
draw sdxl-controlnet --set strength=0
overlaps "$drawn" workflows/pictures/shapes.png 0.3; verdict it_is_the_control_that_does_it $((! $?))

for file in workflows/*.yaml; do
    name=$(basename "$file" .yaml)
    [[ $done_list == *" $name "* ]]; verdict "a_row_for_$name" $?
done
exit $status
