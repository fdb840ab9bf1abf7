#!/usr/bin/env bash
# What crosses the link between host and device, to the byte: two pictures of the shipped model in one process, on the emulated CUDA device. The first of
# each kind brings its weights, once; from then on a node moves its inputs and its results and nothing else. Counted by the device table ("link" events
# of --events), and held against what the device itself saw (KILN_EMU_REPORT), shapes, and the files' tensors. KILN_TEST_FULL=1: bf16 and a budget as well.
set -u
cd "$KILN_ROOT" || exit 2
kiln=$KILN_BUILD/kiln model=workflows/models/shapes-sd1
emu=$(realpath "$KILN_BUILD/emu/kiln-cuda-emu.so")
[ -e "$emu" ] || { echo "skip cuda_link: no emulation in this build"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

# ---- what has to move: change these when a node learns to leave something on the device -----------------------------------------------------------
latent=4 size=$((8 * 4)) steps=2 width=96 tokens=77
round() { echo $((($1 + 255) / 256 * 256)); } # each input has a place of its own, aligned for the device; they go as one copy
cells=$((latent * latent * 4))
# The noised latent goes in once, the prompts' context (both halves of CFG) once, since a decode was there meanwhile; each step its timesteps go in
# and one number comes back, by which what is not finite is found; in the end the latent comes back in f32.
sampler_in() { echo $((cells * 4 + $(round $((2 * tokens * width * 4))) + steps * $(round 8))); }
sampler_out() { echo $((steps * 8 + cells * 4)); }
sampler_copies() { echo $((1 + steps + steps + 1)); } # context and the first timesteps are neighbours, and go as one
decode_in() { round $((cells * 4)); }
decode_out() { echo $((size * size * 3 * type)); }
decode_copies() { echo 2; }
# The prompt's ids and the place of its end; tokens and pooled come back.
text_in() { echo $(($(round $((tokens * 4))) + $(round 4))); }
text_out() { echo $(((tokens + 1) * width * type)); }

# weights PART NAMES: bytes of a part's tensors on the device, by engine/backend/cuda's packing: rows of products padded to eight elements, a product's bias
# as f32 padded to 64 and once more in the activations' type (q, k and v together), looked-up tables in that type, the rest in f32.
weights() {
    "$kiln" inspect "$model/$1" --tensors | awk -v size="$type" -v want="$2" '
    function up(n, to) { return int((n + to - 1) / to) * to }
    $2 !~ /^\[/ || $3 !~ want { next }
    {
        gsub(/[][]/, "", $2)
        n = split($2, dim, ",")
        for (count = i = 1; i <= n; i++) count *= dim[i]
        sub(/[qkv]_proj\.bias|to_[qkv]\.bias/, "qkv.bias", $3)
        if (n > 1) product[substr($3, 1, length($3) - 7)] = 1
        if ($3 ~ /token_embedding/) bytes += count * size
        else if (n == 1 || $3 ~ /position_embedding/) plain[$3] += count
        else bytes += dim[1] * up(count / dim[1], 8) * size
    }
    END {
        for (name in plain) {
            of = substr(name, 1, length(name) - 5)
            bytes += name ~ /bias$/ && (of in product || of ~ /qkv$/) ? up(plain[name], 64) * 4 + plain[name] * size : plain[name] * 4
        }
        printf "%d\n", bytes
    }'
}

# ---- runs ----------------------------------------------------------------------------------------------------------------------------------------
# draw NAME PRECISION ARG ...: pictures of seeds 1 and 2; their "link" events go to NAME.link as "row node in out copies"
draw() {
    name=$1 precision=$2
    shift 2
    KILN_CUDA_LIBRARY=$emu KILN_EMU_REPORT=$work/$name.report "$kiln" run workflows/txt2img.yaml --device cuda --no-cache --jobs 1 --precision "$precision" --set steps=$steps \
        --set empty.width=$size --set empty.height=$size --over seed=1,2 --out "$work/$name" --events "$work/$name.events" "$@" >/dev/null 2>"$work/$name.err" || { cat "$work/$name.err"; return 1; }
    sed -nE 's/.*"event": "link".*"node": "([a-z]+)".*"row": ([0-9]+), "in": ([0-9]+), "out": ([0-9]+), "copies": ([0-9]+).*/\2 \1 \3 \4 \5/p' "$work/$name.events" >"$work/$name.link"
}
# what NAME ROW NODE FIELD (3: in, 4: out, 5: copies)
moved() { awk -v row="$2" -v node="$3" -v field="$4" '$1 == row && $2 == node { print $field }' "$work/$1.link"; }
# same WHAT GOT WANTED
same() {
    if [ -n "$2" ] && [ "$2" = "$3" ]; then echo "ok $1"; else echo "  $1: ${2:-nothing} instead of $3"; echo "FAIL $1"; status=1; fi
}

check_link() { # NAME PRECISION
    type=4
    [ "$2" = bf16 ] && type=2
    # The next program's weights come during the last run of the one before: the UNet's with the second prompt, the VAE's with the last step. In all they are as many.
    same "$2_weights_come_once" $(($(moved "$1" 1 positive 3) + $(moved "$1" 1 negative 3) + $(moved "$1" 1 sampler 3) + $(moved "$1" 1 decode 3))) \
        $(($(weights text_encoder .) + $(weights unet .) + $(weights vae '^(decoder|post_quant)') + 2 * $(text_in) + $(sampler_in) + $(decode_in)))
    same "$2_a_prompt_brings_its_weights_once_and_ids" "$(moved "$1" 1 positive 3)" $(($(weights text_encoder .) + $(text_in)))
    same "$2_the_decoders_weights_are_there_before_the_last_step_ends" "$(moved "$1" 1 decode 3)" "$(decode_in)"
    [ "$(moved "$1" 1 negative 3)" -gt $(($(weights unet .) / 2)) ]
    same "$2_the_unets_come_while_the_text_is_encoded" $? 0
    same "$2_a_warm_sampler_brings_its_steps" "$(moved "$1" 2 sampler 3)" "$(sampler_in)"
    same "$2_a_warm_decode_brings_a_latent" "$(moved "$1" 2 decode 3)" "$(decode_in)"
    same "$2_prompts_are_encoded_once" "$(moved "$1" 2 positive 3)$(moved "$1" 2 negative 3)." .
    for row in 1 2; do
        same "$2_a_latent_goes_back_row_$row" "$(moved "$1" $row sampler 4)" "$(sampler_out)"
        same "$2_a_picture_goes_back_row_$row" "$(moved "$1" $row decode 4)" "$(decode_out)"
    done
    same "$2_tokens_go_back" "$(moved "$1" 1 positive 4)" "$(text_out)"
    same "$2_copies_of_a_warm_sampler" "$(moved "$1" 2 sampler 5)" "$(sampler_copies)"
    same "$2_copies_of_a_warm_decode" "$(moved "$1" 2 decode 5)" "$(decode_copies)"
    same "$2_nothing_moves_beside_nodes" "$(awk '{ i += $3; o += $4 } END { print "in", i, "out", o }' "$work/$1.link")" "$(grep -o 'in [0-9]* out [0-9]*' "$work/$1.report")"
    same "$2_no_faults" "$(grep -o '^faults [0-9]* kernel_faults [0-9]*' "$work/$1.report")" "faults 0 kernel_faults 0"
}

draw whole f32 && check_link whole f32
grep -q '^link: .* in, .* out, [0-9]* copies$' "$work/whole.err"
same said_at_the_end $? 0

# Without a device there is no link to speak of.
"$kiln" run workflows/txt2img.yaml --device cpu --no-cache --set steps=1 --set empty.width=$size --set empty.height=$size --out "$work/cpu" --events "$work/cpu.events" >/dev/null 2>"$work/cpu.err"
same nothing_on_the_processor "$(cat "$work/cpu.events" "$work/cpu.err" | grep -c link)" 0

if [ -n "${KILN_TEST_FULL:-}" ]; then
    draw half bf16 && check_link half bf16
    # Under a budget a step brings the estimated bytes again, as --explain prints them. Looked at is the sixth: a program's first
    # runs leave room for those that come between (engine/memory/pass.c).
    type=4 steps=5
    draw five f32 --memory 20M
    KILN_CUDA_LIBRARY=$emu "$kiln" run workflows/txt2img.yaml --device cuda --no-cache --precision f32 --set steps=$steps --set empty.width=$size --set empty.height=$size --memory 20M --explain >"$work/explain"
    five=$(($(moved five 1 sampler 3) - $(sampler_in))) steps=6
    draw six f32 --memory 20M
    estimated=$(sed -nE 's/^([0-9.]+) MB come in again each time.*/\1/p' "$work/explain")
    again=$(($(moved six 1 sampler 3) - $(sampler_in) - five))
    echo "# $again bytes of weights come in again in a step, $estimated MB estimated"
    awk -v a=$again -v f="$estimated" 'BEGIN { exit !(f > 0 && a >= f * 1e6 - 1 && a < (f + 0.1) * 1e6) }' # sizes are told rounded down
    same what_a_budget_brings_again $? 0
else
    echo "skip bf16_and_a_budget: make test-memory"
fi
exit $status
