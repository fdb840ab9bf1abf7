# single_model.sh - a .safetensors file with the key names of the original SD1.x checkpoints and cut-down sizes, random numbers: make_single OUT. To be
# sourced; $KILN_ROOT and $KILN_BUILD are set. A tenth of the UNet's channels, a quarter of the VAE's, one head of 64 in the text encoder.
make_single() {
    local sd15="$KILN_ROOT/tests/bench/sd15"
    awk 'function cut(d, part) {
            if (part == "text_encoder") return d == 768 ? 64 : d == 3072 ? 256 : d
            if (part == "unet") return d == 768 ? 64 : d < 10 ? d : d / 10
            return d % 128 ? d : d / 4
        }
        { split($1, part, "/"); n = split($3, dim, "x"); line = ""
          for (i = 1; i <= n; i++) line = line (i > 1 ? "x" : "") cut(dim[i], part[1]); print $1, $2, line }' "$sd15/tensors.txt" >"$1.txt"
    "$KILN_ROOT/$KILN_BUILD/tests/bench/random_model" "$1.txt" "$1" "$sd15/single_file_names.txt" && rm "$1.txt"
}
