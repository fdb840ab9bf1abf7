# test_single_file.sh - one .safetensors file with the key names of the original SD1.x checkpoints: drawn from the build folder and from an
# installed prefix whose clone is gone. Sizes are cut down, names, vocabulary and depth are SD1.5's, numbers are random; a folder in
# diffusers' layout with the same numbers draws the same bytes.
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
. "$KILN_ROOT/tests/cli/installed.sh"
kiln="$KILN_ROOT/$KILN_BUILD/kiln" make_model="$KILN_ROOT/$KILN_BUILD/tests/bench/random_model" sd15="$KILN_ROOT/tests/bench/sd15"
export XDG_CACHE_HOME="$work/cache"
unset KILN_PLUGIN_PATH KILN_MODELS
cp "$KILN_ROOT/workflows/txt2img.yaml" "$work/" && cd "$work" || exit 2
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else cat run.txt 2>/dev/null; echo "FAIL $1"; status=1; fi
}

# A tenth of the UNet's channels, a quarter of the VAE's, one head of 64 in the text encoder; context and text width agree.
awk 'function cut(d, part) {
        if (part == "text_encoder") return d == 768 ? 64 : d == 3072 ? 256 : d
        if (part == "unet") return d == 768 ? 64 : d < 10 ? d : d / 10
        return d % 128 ? d : d / 4
    }
    { split($1, part, "/"); n = split($3, dim, "x"); line = ""
      for (i = 1; i <= n; i++) line = line (i > 1 ? "x" : "") cut(dim[i], part[1]); print $1, $2, line }' "$sd15/tensors.txt" >tensors.txt
mkdir one folder
"$make_model" tensors.txt one/small.safetensors "$sd15/single_file_names.txt"; verdict the_file_is_made $?
"$make_model" tensors.txt folder/small.safetensors && cp -r "$sd15"/model_index.json "$sd15"/scheduler folder/small.safetensors/
for part in text_encoder unet vae; do
    case $part in
    text_encoder) edit='s/: 768/: 64/; s/: 3072/: 256/; s/"num_attention_heads": 12/"num_attention_heads": 1/' ;;
    unet) edit='s/^    \([0-9]*\)0\(,\?\)$/    \1\2/; s/: 768/: 64/' ;;
    vae) edit='s/^    128\(,\?\)$/    32\1/; s/^    256\(,\?\)$/    64\1/; s/^    512\(,\?\)$/    128\1/' ;;
    esac
    sed "$edit" "$sd15/$part/config.json" >"folder/small.safetensors/$part/config.json"
done

draw() { # FOLDER COMMAND...: the picture's path
    local models=$1; shift
    rm -rf "$work/out"
    "$@" run "$work/txt2img.yaml" --models "$work/$models" --set model.ckpt_name=small.safetensors --set steps=2 --no-cache --out "$work/out" 2>"$work/run.txt"
}
[ -s "$(draw one "$kiln")" ]; verdict a_single_file_draws $?
cp out/kiln_00001_.png one.png
[ -s "$(draw folder "$kiln")" ] && cmp one.png out/kiln_00001_.png; verdict the_folder_draws_the_same $?
[ "$("$kiln" inspect one/small.safetensors --tensors 2>/dev/null | grep -c first_stage_model)" -gt 200 ]; verdict its_names_are_the_original_ones $?

mkdir odd && { cat tensors.txt; echo "unet/diffusion_pytorch_model.safetensors conv_strange.weight 4x4"; } >odd.txt
{ cat "$sd15/single_file_names.txt"; printf 'unet/conv_strange.weight\tmodel.diffusion_model.strange.weight\n'; } >odd-names.txt
"$make_model" odd.txt odd/small.safetensors odd-names.txt && [ -s "$(draw odd "$kiln")" ] && cmp one.png out/kiln_00001_.png &&
    grep -q "tensor 'model.diffusion_model.strange.weight' is not used by any network" run.txt
verdict a_tensor_for_nobody_is_said $?

install_kiln "$work/a prefix/usr"; verdict install $?
[ -s "$(draw one "$work/a prefix/usr/bin/kiln")" ] && cmp one.png out/kiln_00001_.png; verdict the_installed_one_draws_it $?
draw one without_clone "$work/a prefix/usr/bin/kiln" >drawn.txt; result=$?
if [ $result -eq 125 ]; then echo "skip it_needs_no_clone: mounts are not allowed here"
else [ -s "$(cat drawn.txt)" ] && cmp one.png out/kiln_00001_.png; verdict it_needs_no_clone $?; fi

# Without its data the plugin says what is missing and where.
rm -r "$work/a prefix/usr/lib/kiln/plugins/kiln-clip.data"
draw one "$work/a prefix/usr/bin/kiln" >/dev/null; result=$?
[ $result -eq 1 ] && grep -q "kiln-clip.data" run.txt; verdict missing_data_is_named $?
[ ! -e "$work/a prefix/usr/lib/libkiln.so" ] || [ -e "$work/a prefix/usr/include/kiln/engine.h" ]; verdict no_library_without_an_interface $?
exit $status
