# test_lora_inspect.sh - `kiln inspect` of files of patches: their kinds, ranks, alphas, networks, the model they were made for, what is
# left over; halves; and that a model is no such file.
status=0
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
case $KILN_BUILD in /*) kiln=$KILN_BUILD/kiln ;; *) kiln=$KILN_ROOT/$KILN_BUILD/kiln ;; esac
edit="$KILN_ROOT/tests/models/edit_tensors.py"
golden="$KILN_ROOT/tests/golden"
export XDG_CACHE_HOME="$work/cache"
unset KILN_PLUGIN_PATH KILN_MODELS
cd "$work" || exit 2
verdict() { if [ "$2" -eq 0 ]; then echo "ok $1"; else sed 's/^/  /' log | head -n 30 | cut -c 1-300; echo "FAIL $1"; status=1; fi; }
# inspect STATUS ARG...: into log
inspect() { local want=$1; shift; "$kiln" inspect "$@" >log 2>&1; local got=$?; [ $got -eq "$want" ] || { echo "exit status $got" >>log; return 1; }; }
says() { for words in "$@"; do grep -qE -e "$words" log || { echo "it does not say: $words" >>log; return 1; }; done; }

inspect 0 "$golden/lora/kohya.safetensors" &&
    says '^patch: LoRA 30 \(family lora\), complete$' ' rank +3$' ' alpha +2$' ' modules +denoiser 18, text encoder 12$' && ! grep -q 'left over' log
verdict a_lora $?
inspect 0 "$golden/lora/peft.safetensors" && says '^patch: LoRA 126 ' ' modules +denoiser 114, text encoder 12$' && ! grep -q ' alpha ' log; verdict a_lora_of_peft $?
inspect 0 "$golden/lora_kinds/lycoris.safetensors" &&
    says '^patch: .*LoHa 3,' 'LoRA with DoRA 6,' 'BOFT 3,' 'LoRA \(Tucker\) 1,' 'GLoRA 4,' 'OFT 3,' 'IA3 4' 'difference 6' 'LoKr \(Tucker\) 1' && ! grep -q 'left over' log
verdict every_kind $?
for case in ldm kohya diffusers; do
    inspect 0 "$golden/lora_xl/$case.safetensors" && says '^patch: LoRA 20 ' ' made for +SDXL$' ' modules +denoiser 8, text encoder 6, text encoder 2 6$'
    verdict "sdxl_$case" $?
done
inspect 0 "$KILN_ROOT/workflows/models/loras/shapes-night.safetensors" && says '^patch: LoRA'; verdict the_one_that_ships $?
"$kiln" inspect "$golden/lora_xl/ldm.safetensors" --json >log && python3 - <<'P'
import json
[part] = json.load(open("log"))["parts"]
assert part["kind"] == "patch" and part["complete"] and part["facts"] == {"alpha": "3", "made for": "SDXL", "modules": "denoiser 8, text encoder 6, text encoder 2 6", "rank": "2"}, part
P
verdict as_json $?

# ---- the base by its metadata, or by the width of text
python3 - <<'P'
import json, struct
def write(name, width, **notes):
    shapes = {"up": [8, 2], "down": [2, width]}
    header, at = {"__metadata__": notes}, 0
    for half, shape in shapes.items():
        header[f"lora_unet_down_blocks_1_attentions_0_transformer_blocks_0_attn2_to_k.lora_{half}.weight"] = {"dtype": "F16", "shape": shape, "data_offsets": [at, at + 2 * shape[0] * shape[1]]}
        at += 2 * shape[0] * shape[1]
    text = json.dumps(header).encode()
    open(name, "wb").write(struct.pack("<Q", len(text)) + text + bytes(at))
for width in (768, 1024, 2048, 96):
    write(f"{width}.safetensors", width)
write("said.safetensors", 768, ss_base_model_version="sd_v1")
P
for row in "768 SD 1" "1024 SD 2" "2048 SDXL"; do
    inspect 0 "${row%% *}.safetensors" && says " made for +${row#* }$"; verdict "base_by_width_${row%% *}" $?
done
inspect 0 96.safetensors && ! grep -q 'made for' log; verdict base_unknown $?
inspect 0 said.safetensors && says ' made for +sd_v1$'; verdict base_by_metadata $?

# ---- damaged, and others
python3 "$edit" "$golden/lora_xl/kohya.safetensors" half.safetensors drop lora_te1_text_model_encoder_layers_0_mlp_fc1.lora_down.weight also stray:F16
inspect 2 half.safetensors && says '^patch: .*NOT COMPLETE' 'half of a pair; .*fc1.lora_down.weight. is missing'; verdict half_of_a_pair $?
python3 "$edit" "$golden/lora_xl/kohya.safetensors" stray.safetensors also stray:F16
inspect 0 stray.safetensors && says 'left over: 1 tensor' '^  stray$'; verdict left_over $?
python3 "$edit" "$golden/lora_xl/kohya.safetensors" refused.safetensors also base_model.model.x.oft_embedding_R.weight:F16
inspect 2 refused.safetensors && says "x.oft_embedding_R.weight' belongs to an OFT of an embedding"; verdict a_kind_that_is_refused $?
for path in "$KILN_ROOT/workflows/models/shapes-sd1" "$golden/noise.safetensors"; do
    "$kiln" inspect "$path" >log 2>&1; ! grep -q '^patch' log; verdict "no_patch_$(basename "$path")" $?
done
exit $status
