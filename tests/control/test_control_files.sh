# test_control_files.sh - files of controls as ControlNetLoader and DiffControlNetLoader take them: other types, differences to a denoiser, a tensor
# too few or too many; and what `kiln inspect` says of one.
. "$KILN_ROOT/tests/cli/head.sh"
. "$KILN_ROOT/tests/control/control_workflows.sh"
golden_plugin; verdict the_golden_nodes_build $?
tiny="$proof/models/controlnet/tiny" unet="$proof/models/diffusion_models/tiny/unet/diffusion_pytorch_model.safetensors"
folder() { # NAME WHAT...: models/controlnet/NAME, made of tiny
    mkdir -p "$work/models/controlnet/$1" && cp "$tiny/config.json" "$work/models/controlnet/$1/" || return 1
    local out="$work/models/controlnet/$1/diffusion_pytorch_model.safetensors"; shift
    python3 -I tests/control/edit_controls.py "$@" "$out"
}
file="$tiny/diffusion_pytorch_model.safetensors"
folder difference difference "$file" "$unet" && folder f32 f32 "$file" && folder bf16 bf16 "$file" &&
    folder short without controlnet_mid_block.bias "$file" && folder long with down_blocks.1.mystery.weight "$file"
verdict files_are_made $?
loaded() { # NAME NODE FOLDER: drawn with that loader's control as the golden "net"
    echo "  $1: {class_type: $2, inputs: {control_net_name: $3$([ "$2" = ControlNetLoader ] || echo ', model: [model, 0]')}}"
    apply "on_$1" "yes no" "$1" dots 0.8; both "$1"; compare "$1" net
}

# ---- differences, and whole ones where a difference may be given
loaded difference DiffControlNetLoader difference | workflow difference
run difference --no-cache; verdict a_difference_is_drawn_with $?
as_golden net difference
loaded whole DiffControlNetLoader tiny | workflow whole
run whole --no-cache; as_golden net whole

# ---- a Control-LoRA, which gets its denoiser when it is sampled with
python3 -I tests/control/edit_controls.py lora "$file" "$unet" "$work/models/controlnet/lora.safetensors"; verdict a_control_lora_is_made $?
loaded lora ControlNetLoader lora.safetensors | workflow lora
run lora --no-cache --trace "$work/lora.trace"; verdict a_control_lora_is_drawn_with $?
as_golden net lora
same both_sides_are_one_batch "$(grep -cE '"name": "timestep_embedding".*"denoiser/control[ /]' "$work/lora.trace")" 5
{ echo '  patched: {class_type: LoraLoaderModelOnly, inputs: {model: [model, 0], lora_name: tiny.safetensors, strength_model: 0.5}}'
  loaded lora ControlNetLoader lora.safetensors | sed 's/guider: {class_type: CFGGuider, inputs: {model: \[model, 0\]/guider: {class_type: CFGGuider, inputs: {model: [patched, 0]/'; dump lora; } | workflow patched
run patched --no-cache; verdict over_a_patched_model_too $?

# ---- a Union's kinds: numbers that the network is told, not another network
folder union union "$file"; verdict a_union_is_made $?
{
    echo '  union: {class_type: ControlNetLoader, inputs: {control_net_name: union}}'
    echo '  counted: {class_type: TestCountedControl, inputs: {control_net: [union, 0]}}'
    for kind in auto depth segment; do
        echo "  typed_$kind: {class_type: SetUnionControlNetType, inputs: {control_net: [counted, 0], type: $kind}}"
        apply on_$kind "yes no" typed_$kind dots 0.8; both $kind step; echo "  dump_$kind: {class_type: TestDump, inputs: {samples: [${kind}_latent, 0]}}"
    done
} | workflow union
test_plugin tests/control/plugin/counted_control.c counted && run union --no-cache -v; verdict a_union_is_drawn_with $?
same two_kinds_are_one_program "$(grep -c 'counted: the control is recorded' "$work/union.txt")" 2
told() { # KIND...: one after the other, each to what the last one gave
    local last=union
    echo '  union: {class_type: ControlNetLoader, inputs: {control_net_name: union}}'
    for kind; do echo "  $last$kind: {class_type: SetUnionControlNetType, inputs: {control_net: [$last, 0], type: $kind}}"; last=$last$kind; done
    apply on_net "yes no" "$last" dots 0.8; both net step; dump net
}
untold=$(told | latent_of untold) depth=$(told depth | latent_of depth) segment=$(told segment | latent_of segment)
check kinds_are_told_apart [ "$depth" != "$segment" ]
check a_kind_is_not_none [ "$depth" != "$untold" ]
same auto_is_none "$(told auto | latent_of auto)" "$untold"
same auto_takes_a_kind_back "$(told depth auto | latent_of back)" "$untold"

# ---- adapters have a folder of their own too
mkdir -p "$work/models/t2i_adapter" && cp -r "$proof/models/controlnet/adapter" "$work/models/t2i_adapter/mine"
{ echo '  mine: {class_type: ControlNetLoader, inputs: {control_net_name: mine}}'; apply on_mine "yes no" mine dots 1; both mine; compare mine adapter; } | workflow mine
run mine --no-cache; as_golden adapter mine

# ---- other types
for kind in f32 bf16; do
    loaded $kind ControlNetLoader $kind | workflow $kind
    run $kind --no-cache; verdict ${kind}_is_drawn_with $?
done
as_golden net f32
as_golden net bf16 2e-2

# ---- what is said
refused() { # NAME WORDS; the workflow's own nodes on standard input
    workflow "$1"
    expect "$1" 1 "$2" "$kiln" run "$work/$1.yaml" --precision f32 --no-cache --plugins "$work/plugins" --models "$proof/models:$work/models:tests/golden" \
        --input "$proof:$proof/input" --out "$work/out"
}
loaded alone ControlNetLoader difference | refused a_difference_alone "take DiffControlNetLoader, which is given the denoiser"
{ echo "  other: {class_type: UNETLoader, inputs: {unet_name: $PWD/tests/golden/tiny-sd1}}"; loaded of_another DiffControlNetLoader difference | sed 's/model: \[model, 0\]}}$/model: [other, 0]}}/'; } |
    refused a_difference_to_another_model "node 'of_another' (DiffControlNetLoader)"
loaded short ControlNetLoader short | refused a_missing_tensor_is_named_at_the_loader "no tensor 'controlnet_mid_block.bias'"
check it_is_the_loader_that_says_so grep -q "node 'short' (ControlNetLoader)" "$work/log"
loaded long ControlNetLoader long | workflow long
run long --no-cache; verdict a_tensor_too_many_is_no_error $?
check a_tensor_too_many_is_named grep -q "down_blocks.1.mystery.weight" "$work/log"
{ echo '  six: {class_type: ControlNetLoader, inputs: {control_net_name: union}}'; echo '  typed: {class_type: SetUnionControlNetType, inputs: {control_net: [six, 0], type: repaint}}'
  apply on "yes no" typed dots 1; sample net "on, 0" "on, 1"; dump net; } |
    refused a_kind_that_it_does_not_know "'repaint' is kind 8 of a Union ControlNet, and this one knows 6; take a ProMax"
export XDG_CACHE_HOME="$work/cache"
expect a_control_lora_of_another_model 1 "shapes-sd1/unet/diffusion_pytorch_model.safetensors; it was made for another model" "$kiln" run workflows/controlnet.yaml --no-cache \
    --set net.control_net_name=shapes-xl-edges.safetensors --out "$work/out"
expect inspect_knows_a_control 0 "ControlNet for UNet like SD1's, 8 to 12 channels" "$kiln" inspect "$tiny"
expect inspect_knows_an_adapter 0 "T2I-Adapter for SD1, 8 to 12 channels" "$kiln" inspect "$proof/models/controlnet/adapter"
exit $status
