# test_editor_templates.sh - three of ComfyUI's official templates run from their files with only the names of the models set, and twelve that are cut down to
# our models as they are: tests/workflow/templates.
. "$KILN_ROOT/tests/cli/head.sh"
at=tests/workflow/templates
draw() { local to=$1; shift; "$kiln" run "$@" -q --out "$work/$to" >"$work/stdout" 2>"$work/log"; }
sums() { for p in "$work/$1"/*.png; do pixels "$p"; done; }
all() { find "$work/$1" -name '*.png' | while read -r p; do pixels "$p"; done | sort; } # also what previews show; of equal names the first to finish has the first number
lacks() { # NAME FILE MODEL...: refused by these model files, each with where it can be had, and nothing else
    local name=$1 file=$2 wrong=0 model; shift 2
    "$kiln" check "$file" >"$work/stdout" 2>"$work/log"
    for model; do grep -q "input 'ckpt_name': no file '$model' for checkpoints.*; the workflow has it from https://huggingface.co/.*$model" "$work/log" || wrong=1; done
    [ "$(grep -c ': error: ' "$work/log")" = $# ] || wrong=1
    verdict "$name" $wrong
}

for name in sdxl_simple_example sdxl_refiner_prompt_example sdxlturbo_example; do
    "$kiln" convert "$at/$name.json" >"$work/$name.yaml" 2>"$work/log"
    check "convert_$name" diff "$at/$name.yaml" "$work/$name.yaml"
done
lacks simple_lacks_its_models "$at/sdxl_simple_example.json" sd_xl_base_1.0.safetensors sd_xl_refiner_1.0.safetensors
lacks refiner_prompt_lacks_its_models "$at/sdxl_refiner_prompt_example.json" sd_xl_base_1.0.safetensors sd_xl_refiner_1.0.safetensors
lacks turbo_lacks_its_model "$at/sdxlturbo_example.json" sd_xl_turbo_1.0_fp16.safetensors

# ---- with any models: by id and by title; smaller and with fewer steps than the files say, for a test's sake
tiny=(--models tests/golden --set 4.ckpt_name=tiny-sd1 --set "Load Checkpoint - REFINER.ckpt_name=tiny-sd1")
small=(--set 5.width=64 --set 5.height=64)
fewer=(--set 10.steps=3 --set 10.end_at_step=2 --set 11.steps=3 --set 11.start_at_step=2)
for name in sdxl_simple_example sdxl_refiner_prompt_example; do
    check "runs_$name" draw "tiny_$name" "$at/$name.json" "${tiny[@]}" "${small[@]}" "${fewer[@]}"
    draw "yaml_$name" "$at/$name.yaml" --models tests/golden --set 4.ckpt_name=tiny-sd1 --set 12.ckpt_name=tiny-sd1 "${small[@]}" "${fewer[@]}"
    same "${name}_is_as_converted" "$(sums "tiny_$name")" "$(sums "yaml_$name")"
done
check runs_sdxlturbo_example draw turbo "$at/sdxlturbo_example.json" --models tests/golden --set 20.ckpt_name=tiny-sd1 "${small[@]}"

# ---- with SDXL's structure in small
xl=(--set 4.ckpt_name=shapes-xl --set 12.ckpt_name=shapes-xl-refiner)
small=(--set 5.width=128 --set 5.height=128)
check shapes_xl_and_refiner draw xl "$at/sdxl_simple_example.json" "${xl[@]}" "${small[@]}"
check shapes_xl_and_refiner_with_prompts_of_their_own draw xl2 "$at/sdxl_refiner_prompt_example.json" "${xl[@]}" "${small[@]}"
check shapes_xl_in_one_step draw xlturbo "$at/sdxlturbo_example.json" --set 20.ckpt_name=shapes-xl "${small[@]}"

# ---- cut down: what stands in them is converted as it was once looked at, and the file, its YAML and its API form draw the same
n=0
for file in "$at"/cut/*.json; do
    name=$(basename "$file" .json) n=$((n + 1))
    "$kiln" convert "$file" >"$work/$name.yaml" 2>"$work/log"
    check "convert_$name" diff "$at/cut/$name.yaml" "$work/$name.yaml"
    "$kiln" convert "$work/$name.yaml" -o "$work/$name.api.json" 2>"$work/log"
    check "runs_$name" draw "cut_$name" "$file" --input workflows/pictures
    check "runs_its_yaml_$name" draw "cut_yaml_$name" "$work/$name.yaml" --input workflows/pictures
    check "runs_its_api_form_$name" draw "cut_api_$name" "$work/$name.api.json" --input workflows/pictures
    for form in yaml api; do
        same "${name}_${form}_draws_the_same" "$(all "cut_${form}_$name")" "$(all "cut_$name")"
    done
done
check a_dozen [ "$n" -ge 12 ]
exit $status
