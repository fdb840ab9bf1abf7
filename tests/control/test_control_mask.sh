# test_control_mask.sh - a mask of a control: of ones it is as none, of zeros the control adds nothing, a half is half the strength, two that make
# up one are the control without; where it lies, and in areas; of a control that runs with the denoiser and of an adapter; what is refused.
. "$KILN_ROOT/tests/cli/head.sh"
. "$KILN_ROOT/tests/control/control_workflows.sh"
golden_plugin; verdict the_test_nodes_build $?

masked() { # NAME NET MASK STRENGTH [CONDITIONINGS]
    local yes no; read -r yes no <<<"${5:-yes no}"
    echo "  on_$1: {class_type: ControlNetApplyAdvanced, inputs: {positive: [$yes, 0], negative: [${no:-$yes}, $([ -n "$no" ] && echo 0 || echo 1)], control_net: [$2, 0], image: [dots, 0], mask: [$3, 0], strength: $4}}"
}
masks() {
    for value in 0 0.5 1; do echo "  m$value: {class_type: SolidMask, inputs: {width: 160, height: 64, value: $value}}"; done
    echo "  side: {class_type: SolidMask, inputs: {width: 80, height: 64, value: 1}}"
    echo "  right: {class_type: MaskComposite, inputs: {destination: [m0, 0], source: [side, 0], x: 80, y: 0, operation: add}}"
    echo "  left: {class_type: InvertMask, inputs: {mask: [right, 0]}}"
    echo "  on_left: {class_type: ConditioningSetArea, inputs: {conditioning: [yes, 0], width: 80, height: 64, x: 0, y: 0, strength: 1.0}}"
}
one() { { masks; cat; dump "${1%%-*}"; } | latent_of "$1"; } # NAME: the checksum of the latent NAME_latent

# ---- against diffusers: the ControlNet's golden, and the adapter's
{
    masks
    masked ones net m1 0.8; both ones; compare ones net
    masked part net left 0.8; masked parts net right 0.8 on_part; both parts; compare parts net
    masked adapter adapter m1 1; both adapter; compare adapter adapter
    masked first adapter right 1; masked both_sides adapter left 1 on_first; both both_sides; compare both_sides adapter
} | workflow goldens
run goldens --no-cache; verdict masks_are_sampled $?
same ones_are_no_mask_and_two_halves_one "$(grep -c '^golden golden.net [0-9.]*e-0[6-9]' "$work/goldens.txt") $(grep -c '^golden golden.adapter [0-9.]*e-0[6-9]' "$work/goldens.txt")" "2 2"

# ---- how much, and where
none=$({ sample n "yes, 0" "no, 0"; } | one n)
same a_mask_of_zeros_adds_nothing "$({ masked z net m0 0.8; both z; } | one z)" "$none"
full=$({ apply on_f "yes no" net dots 0.5; both f; } | one f)
same a_half_is_half_the_strength "$({ masked h net m0.5 1; both h; } | one h)" "$full"
left=$({ masked l net left 1; both l; } | one l) right=$({ masked r net right 1; both r; } | one r)
check the_sides_differ [ "$left" != "$right" ]
check and_from_none [ "$left" != "$none" ]
# in an area of the left half: a mask of the right half adds nothing there, one of the left half is none
area() { sample "$1" "on_$1, 0" "no, 0"; }
nothing=$({ sample a "on_left, 0" "no, 0"; } | one a)
same it_lies_where_it_lies "$({ masked b net right 1 "on_left no"; area b; } | one b)" "$nothing"
whole=$({ apply on_c "on_left no" net dots 1; area c; } | one c)
same and_is_cut_as_the_picture_is "$({ masked d net left 1 "on_left no"; area d; } | one d)" "$whole"
check which_is_not_nothing [ "$whole" != "$nothing" ]
# the old node has one too
old=$({ echo '  on_o: {class_type: ControlNetApply, inputs: {conditioning: [yes, 0], control_net: [net, 0], image: [dots, 0], mask: [left, 0], strength: 1}}'; sample o "on_o, 0" "no, 0"; } | one o)
same the_old_node_has_one "$old" "$left"
# in one process too
{ masks; masked one net left 0.8; masked two net right 0.8; both one; both two; dump one; dump two; } | workflow two
run two --no-cache; verdict two_masks_are_sampled $?
check two_masks_two_latents sh -c "! cmp -s '$work/two/samples_00001_.f32' '$work/two/samples_00002_.f32'"

# ---- ControlNetInpaintingAliMamaApply is ControlNetApplyAdvanced for controls without a channel for the mask
advanced=$({ apply on_p "yes no" net dots 0.8 0.2 0.7; both p; } | one p)
alimama=$({ echo '  vae: {class_type: VAELoader, inputs: {vae_name: shapes-sd1}}'
    echo '  on_q: {class_type: ControlNetInpaintingAliMamaApply, inputs: {positive: [yes, 0], negative: [no, 0], control_net: [net, 0], vae: [vae, 0], image: [dots, 0], mask: [left, 0], strength: 0.8, start_percent: 0.2, end_percent: 0.7}}'
    both q; } | one q)
same alimama_is_the_advanced_node "$alimama" "$advanced"
check alimama_draws [ -n "$alimama" ]
exit $status
