# test_gligen_nodes.sh - GLIGENLoader and GLIGENTextBoxApply over a tiny UNet, held against diffusers at 1e-5 (scripts/golden/gligen.py has the cases); whose
# entries the boxes act in, what is computed when, under which names a file is read, and what is said of others.
. "$KILN_ROOT/tests/cli/head.sh"
. "$KILN_ROOT/tests/gligen/gligen_workflows.sh"
golden_plugin; verdict the_test_nodes_build $?
tiny=tests/golden/gligen/models/gligen/tiny.safetensors
to_diffusers='input_blocks\.1\.1=>down_blocks.0.attentions.0;middle_block\.1=>mid_block.attentions.0;output_blocks\.0\.1=>up_blocks.0.attentions.0;output_blocks\.1\.1=>up_blocks.0.attentions.1'

# ---- against diffusers; the negative prompt gets the boxes of the positive one
{
    begin
    cat_box on yes; dog_box both on; box wide yes "a circle" 200 16 48 40
    cat_box no_on no; dog_box no_both no_on
    sample one on; compare one
    sample two both; compare two
    sample two_said both no_both; compare two_said two
    sample way both no way; compare way
    sample beyond wide; compare beyond
    sample none yes; compare none
} >"$work/all.yaml"
run all --no-cache; verdict everything_is_sampled $?
for name in one way beyond none; do as_golden all $name 1; done
as_golden all two 2

# ---- files: diffusers' names, a prefix, beside a whole UNet
rename $tiny "$work/models/gligen/diffusers.safetensors" "$to_diffusers"
rename $tiny "$work/models/gligen/prefixed.safetensors" '^=>model.diffusion_model.'
for file in diffusers prefixed; do
    { gligen=$file.safetensors begin; cat_box on yes; dog_box both on; sample two both; compare two; } >"$work/$file.yaml"
    run $file --no-cache; as_golden $file two 1
done
expect inspect_names_it 0 "GLIGEN, boxes with a text of 32, 4 gated layers (family gligen), complete" "$kiln" inspect $tiny

# ---- whose boxes
{ begin; cat_box on yes; sample one on; dump one; } >"$work/on.yaml"; run on --no-cache; verdict with_a_box $?
{ begin; sample one yes; dump one; } >"$work/off.yaml"; run off --no-cache; verdict without_a_box $?
{ begin; cat_box on yes; dog_box no_on no; sample one on no_on; dump one; } >"$work/sides.yaml"; run sides --no-cache; verdict with_a_box_of_its_own_on_either_side $?
check a_box_counts [ "$(latent_of on)" != "$(latent_of off)" ]
check and_the_negative_prompts_own_one [ "$(latent_of on)" != "$(latent_of sides)" ]
{
    begin; cat_box on yes
    echo '  part: {class_type: ConditioningSetArea, inputs: {conditioning: [on, 0], width: 64, height: 64, x: 0, y: 0, strength: 1.0}}'
    echo '  all: {class_type: ConditioningCombine, inputs: {conditioning_1: [yes, 0], conditioning_2: [part, 0]}}'
    sample one all; dump one
} >"$work/area.yaml"
run area --no-cache; verdict boxes_in_an_area $?
check act_there [ "$(latent_of area)" != "$(latent_of off)" ]
{ begin; cat_box on yes; sample one on; dump one; } | sed 's/cfg: 3.0/cfg: 1.0/' >"$work/alone.yaml"; run alone --no-cache; verdict without_guidance $?

# ---- what is computed and kept
attentions() { grep -c '"name": "attention".*"denoiser/' "$work/$1.trace"; }
for name in on off; do run $name --no-cache --trace "$work/$name.trace"; done
same one_attention_more_in_each_block "$(($(attentions on) - $(attentions off)))" 4
run on; first=$(latent_of on); run on; same from_the_cache_the_same_bytes "$(latent_of on)" "$first"
sed 's/x: 8, y: 16/x: 16, y: 16/' "$work/on.yaml" >"$work/moved.yaml"; run moved; check a_moved_box_is_another_picture [ "$(latent_of moved)" != "$first" ]
run on --explain; check explain_counts_it grep -qE '^on +GLIGENTextBoxApply .*[0-9]$' "$work/on.txt"
"$kiln" run "$work/on.yaml" --precision bf16 --no-cache --plugins "$work/plugins" --models "tests/golden/gligen/models:$work/models" --input tests/golden --out "$work/narrow" >"$work/log" 2>&1; verdict in_bf16 $?

# ---- embeddings in a box's text
{ begin; box on yes "a (embedding:nope:1.2), embedding:neither" 40 24 8 16; sample one on; dump one; } >"$work/named.yaml"
"$kiln" check "$work/named.yaml" --plugins "$work/plugins" --models "tests/golden/gligen/models:$work/models" --input tests/golden >"$work/log" 2>&1
check an_embedding_that_is_not_there grep -q "no file 'nope' for embeddings" "$work/log"
check and_another grep -q "no file 'neither' for embeddings" "$work/log"

# ---- bad use
refused() { # NAME MESSAGE: $work/NAME.yaml
    run "$1" --no-cache && return 1
    grep -qF -- "$2" "$work/log"
}
{ begin; cat_box b1 yes; for i in $(seq 2 31); do cat_box "b$i" "b$((i - 1))"; done; sample one b31; dump one; } >"$work/many.yaml"
check more_boxes_than_it_knows refused many "a GLIGEN knows 30 boxes, and this would be one more"
{ unet=$PWD/tests/golden/tiny-sd1 begin; cat_box on yes; sample one on; dump one; } >"$work/other.yaml"
check another_unet refused other "the hook 'gligen' acts at 'output.0.middle', a place that this model does not have"
{ checkpoint=$PWD/workflows/models/shapes-xl begin; cat_box on yes; sample one on; dump one; } >"$work/two_encoders.yaml"
check two_text_encoders refused two_encoders "take the CLIP of the checkpoint that it is used with"
file_with() { # NAME RULE MESSAGE
    rename $tiny "$work/models/gligen/bad.safetensors" "$2"
    { gligen=bad.safetensors begin; cat_box on yes; sample one on; dump one; } >"$work/bad.yaml"
    check "$1" refused bad "$3"
}
file_with no_layers '.*\.fuser\..*=>-' "it has position_net.* and no gated layers (*.fuser.*)"
file_with no_position_net '^position_net.*=>-' "it has gated layers (*.fuser.*) and no position_net.*"
file_with of_pictures 'linears=>linears_text' "take a text-box GLIGEN"
file_with of_key_points 'position_net\.linears=>position_net.mlp' "its grounding is not of boxes with text"
file_with a_layer_lacks_a_gate '.*output_blocks.*alpha_dense=>-' "alpha_dense'"
file_with a_layer_lacks_its_linear '.*input_blocks.*fuser\.linear\.weight=>-' "no tensor 'input_blocks.1.1.transformer_blocks.0.fuser.linear.weight'"
file_with a_missing_projection '.*middle_block.*to_out\.0\.bias=>-' "attn.to_out.0.bias'"
file_with no_null_feature 'position_net\.null_position_feature=>-' "position_net.null_position_feature has 0 numbers"
file_with an_unknown_block 'input_blocks=>entry_blocks' "is called as in no UNet of SD1"
{ gligen="$PWD/tests/golden/tiny-sd1" begin; cat_box on yes; sample one on; dump one; } >"$work/family.yaml"
check another_family_of_files refused family "no loaded plugin knows gligen in it"
exit "$status"
