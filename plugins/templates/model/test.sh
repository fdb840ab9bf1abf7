# test.sh - make test: the contract, and what a network of zeros draws. A model of your own is held against the code that its
# authors published, with a small network of random weights: docs/writing-a-model.md.
. ./pixels.sh
"$kiln" plugin check .

# safetensors: the length of the header in eight bytes, the header, the numbers.
mkdir -p "$work/models/diffusion_models"
header='{' at=0
tensor() { # NAME SHAPE FLOATS
    header="$header\"my_plugin.$1\":{\"dtype\":\"F32\",\"shape\":[$2],\"data_offsets\":[$at,$((at + 4 * $3))]},"
    at=$((at + 4 * $3))
}
tensor in.weight 8,4 32; tensor in.bias 8 8; tensor time.weight 8,16 128; tensor time.bias 8 8
tensor out.weight 4,8 32; tensor out.bias 4 4
header="${header%,}}"
{
    # shellcheck disable=SC2059
    printf "\\$(printf %03o $((${#header} % 256)))\\$(printf %03o $((${#header} / 256)))\\0\\0\\0\\0\\0\\0"
    printf %s "$header"
    head -c "$at" /dev/zero
} >"$work/models/diffusion_models/zeros.safetensors"

"$kiln" run test.yaml --plugins . --models "$work/models" --no-cache --precision f32 --quiet --out "$work" >"$work/said.txt"
same a_network_of_zeros_leaves_the_noise "$work/got_00001_.png" "$work/wanted_00001_.png"
