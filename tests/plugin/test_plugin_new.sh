# test_plugin_new.sh - `kiln plugin new`: every kind in every language builds without a warning against an installed kiln and against a build tree,
# passes its own test, and that test fails when the plugin is wrong. What cannot be made is a sentence, and leaves nothing.
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else tail -n 15 "$work/said.txt"; echo "FAIL $1"; status=1; fi
}
unset KILN_PLUGIN_PATH KILN_MODELS KILN_INPUT KILN_MEMORY MAKEFLAGS MFLAGS MAKELEVEL PKG_CONFIG_PATH
. "$KILN_ROOT/tests/cli/installed.sh"
mkdir "$work/a place" "$work/home"
install_kiln "$work/a place/usr" || { echo "FAIL install"; exit 1; }
export RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}" # where cargo is rustup's, its compiler is there
export HOME="$work/home" XDG_CACHE_HOME="$work/cache" XDG_DATA_HOME="$work/data"
built="$KILN_ROOT/$KILN_BUILD/kiln"
cd "$work/a place" || exit 2
PATH="$PWD/usr/bin:$PATH"

# make_one FOLDER [KILN]: its test; a warning of the compiler is a failure
make_one() {
    (cd "$1" && make ${2:+KILN="$2"} CFLAGS='-O2 -Werror -Wshadow -Wconversion -Wno-sign-conversion' CXXFLAGS='-O2 -Werror' test) >"$work/said.txt" 2>&1
}
for kind in node sampler guider model op; do
    for lang in c c++; do
        name=soft-$kind-${lang//+/p}
        case $lang in c++) command -v g++ >/dev/null || { echo "skip $name: there is no g++"; continue; } ;; esac
        kiln plugin new "$name" --kind $kind --lang $lang >"$work/said.txt" 2>&1 && grep -q "cd $name && make test" "$work/said.txt"; verdict "${kind}_${lang}_is_made" $?
        grep -q "name or .* change, change $([ $kind = model ] && echo test || echo "$name").yaml and test.sh too" "$work/said.txt"; verdict "${kind}_${lang}_says_what_changes_too" $?
        [ -z "$(grep -rilE 'my.?plugin' "$name")" ] && [ -s "$name/.github/workflows/test.yml" ] && [ -s "$name/.gitignore" ]; verdict "${kind}_${lang}_has_its_own_name_everywhere" $?
        make_one "$name"; verdict "${kind}_${lang}_builds_and_passes_its_test" $?
        grep -q 'checks passed, 0 failed' "$work/said.txt" && grep -q '  ok   manifest' "$work/said.txt" && grep -q '^ok   [a-zA-Z0-9_]*$' "$work/said.txt"; verdict "${kind}_${lang}_was_tested" $?
    done
done

# ---- Rust: Debian 12's cargo is new enough; what bindgen makes of the headers is what is there
for kind in node sampler guider model op; do
    kiln plugin new "rusty-$kind" --kind $kind --lang rust >"$work/said.txt" 2>&1 && [ -s "rusty-$kind/rusty_$kind.rs" ] && [ -s "rusty-$kind/Cargo.toml" ] &&
        grep -q cargo "rusty-$kind/.github/workflows/test.yml" && [ -z "$(grep -rilE 'my.?plugin|@CRATE@' "rusty-$kind")" ]; verdict "${kind}_rust_is_made" $?
done
cargo=/usr/bin/cargo; [ -x $cargo ] || cargo=$(command -v cargo)
[ -z "$cargo" ] || "$cargo" --version >/dev/null 2>&1 || cargo= # rustup without a compiler
rust() { (cd "$1" && PATH=$(dirname "$cargo"):$PATH CARGO_HOME="$work/cargo" CARGO="$cargo" RUSTFLAGS='-D warnings' make test) >"$work/said.txt" 2>&1; }
# The test of a kind fails with these words once this is changed in its source.
rust_wrong() { # NAME KIND SED WORDS
    local source="rusty-$2/rusty_$2.rs"
    cp "$source" kept.rs && sed -i "$3" "$source" && ! cmp -s "$source" kept.rs || { echo "the change is none" >"$work/said.txt"; verdict "$1" 1; return; }
    ! rust "rusty-$2" && grep -q "$4" "$work/said.txt"; verdict "$1" $?
    cp kept.rs "$source"
}
if [ -n "$cargo" ]; then
    for kind in node sampler guider model op; do
        rust "rusty-$kind" && grep -q 'checks passed, 0 failed' "$work/said.txt" && grep -q '  ok   manifest' "$work/said.txt" && grep -q '^ok   [a-zA-Z0-9_]*$' "$work/said.txt"
        verdict "${kind}_rust_builds_and_passes_its_test" $?
    done
    rust_wrong the_node_test_in_rust_sees_another_factor node 's/\.min(1.0)/.min(0.4)/' 'FAIL twice_64_is_128'
    rust_wrong the_sampler_test_in_rust_sees_another_step sampler 's/(1.0 - ratio, guess)/(0.9 * (1.0 - ratio), guess)/' 'FAIL it_draws_what_euler_draws\|FAIL law'
    rust_wrong the_guider_test_in_rust_sees_another_scale guider 's/g.guess(NEGATIVE), p.cfg,/g.guess(NEGATIVE), 0.5 * p.cfg,/' 'FAIL it_guides'
    rust_wrong the_model_test_in_rust_sees_another_network model 's/r.add(h, r.reshape(r.named/r.add(r.affine(h, 1.0, 0.1), r.reshape(r.named/' 'FAIL a_network_of_zeros'
    rust_wrong the_op_test_in_rust_sees_a_fast_form_that_differs op 's/if y\[i - row\] > y\[i\] {/if y[i - row] > y[i] + 0.1 {/' 'FAIL f32\|FAIL op'
    # What the engine calls is left by no panic, and each says whose it was.
    rust_wrong a_panic_is_a_message node 's/let n = from.len();/let n = from.len(); if n > 0 { panic!("row {} is wrong", n) }/' 'it panicked: row [0-9]* is wrong'
    rust_wrong a_panic_in_a_sampler_is_a_message sampler 's/let guess = s.slot/assert!(s.sigma()[0] < 0.0, "levels are wrong"); let guess = s.slot/' 'it panicked: levels are wrong'
    rust_wrong a_panic_in_a_guider_is_a_message guider 's/let positive = g/assert!(g.sigma() < 0.0, "no such level"); let positive = g/' 'it panicked: no such level'
    rust_wrong a_panic_while_recording_is_a_message model 's/let n = r.shape(r.x())\[0\];/let n = r.shape(r.x())[7];/' 'it panicked: index out of bounds'
    rust_wrong a_panic_in_an_op_is_a_message op 's/let (x, row, rows) = /assert!(c.shape(0)[1] < 0, "no such row"); let (x, row, rows) = /' 'it panicked: no such row'
    sed -i 's/let n = from.len();/let n = from.len(); if n > 0 { return Err(Error::invalid("100% of it is wrong")); }/' rusty-node/rusty_node.rs
    rust rusty-node; (cd rusty-node && kiln run rusty-node.yaml --plugins . --no-cache --out out) >"$work/said.txt" 2>&1; grep -q "(RustyNode): 100% of it is wrong" "$work/said.txt"; verdict an_error_is_a_message $?

    # The same network in both languages, on weights that are no zeros, and the crate's noise levels against standard_sampling.h: the same bytes.
    mkdir -p twins/c twins/rust "$work/models/diffusion_models"
    (cd twins/c && kiln plugin new twin --kind model --lang c && cd ../rust && kiln plugin new twin --kind model --lang rust) >"$work/said.txt" 2>&1
    rust twins/rust/twin && (cd twins/c/twin && make) >>"$work/said.txt" 2>&1 &&
        python3 - "$work/models/diffusion_models/twin.safetensors" <<'P'
import json, random, struct, sys
head, body, rnd = {}, b"", random.Random(3)
for name, shape in (("in.weight", [8, 4]), ("in.bias", [8]), ("time.weight", [8, 16]), ("time.bias", [8]), ("out.weight", [4, 8]), ("out.bias", [4])):
    n = shape[0] * (shape[1] if len(shape) > 1 else 1)
    data = struct.pack(f"<{n}f", *(rnd.gauss(0, 0.3) for _ in range(n)))
    head["twin." + name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
    body += data
head = json.dumps(head).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(head)) + head + body)
P
    sed 's/zeros.safetensors/twin.safetensors/; s/"1, 0"/"14.6, 7, 3, 1, 0.3, 0"/; s/brightness: 0/brightness: 0.2/' twins/c/twin/test.yaml >twin.yaml
    twin() { kiln run twin.yaml --plugins "twins/$1/twin" --models "$work/models" --no-cache --precision f32 --quiet --out "$work/twin_$1" >"$work/said.txt" 2>&1 &&
        tail -c "+$(grep -abo IDAT "$work/twin_$1/got_00001_.png" | head -n 1 | cut -d: -f1)" "$work/twin_$1/got_00001_.png" | cksum; }
    in_c=$(twin c); [ -n "$in_c" ] && [ "$in_c" = "$(twin rust)" ]; verdict a_model_in_rust_draws_what_it_draws_in_c $?
    mkdir -p levels/src && cp "$KILN_ROOT/tests/plugin/rust/rust_levels.rs" levels/src/main.rs &&
        printf '[package]\nname = "levels"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\nkiln = { path = "%s" }\n' "$KILN_ROOT/bindings/rust" >levels/Cargo.toml &&
        (cd levels && PATH=$(dirname "$cargo"):$PATH CARGO_HOME="$work/cargo" "$cargo" run --quiet --offline >rust.txt 2>"$work/said.txt") &&
        gcc -std=gnu11 -O1 -ffp-contract=off -I"$KILN_ROOT/include" "$KILN_ROOT/tests/plugin/rust/rust_levels.c" -o levels/in_c -lm && levels/in_c >levels/c.txt &&
        [ "$(wc -l <levels/c.txt)" -gt 500 ] && diff levels/c.txt levels/rust.txt >"$work/said.txt"; verdict noise_levels_in_rust_are_those_of_the_header $?
else
    echo "skip rust_builds_and_passes_its_test: there is no cargo that works"
fi
if [ "$(bindgen --version 2>/dev/null)" = "bindgen 0.60.1" ]; then
    (cd "$KILN_ROOT" && scripts/rust-bindings -o "$work/ffi.rs" && cmp "$work/ffi.rs" bindings/rust/src/ffi.rs) >"$work/said.txt" 2>&1 || { echo "run scripts/rust-bindings" >>"$work/said.txt"; false; }; verdict the_crate_is_what_the_headers_say $?
else
    echo "skip the_crate_is_what_the_headers_say: bindgen 0.60.1 is not here"
fi

# ---- a build of the sources will do, and the line that is printed is the one to type
(PATH=${PATH#*:} && "$built" plugin new from-sources --id com.example.from-sources >"$work/said.txt") && grep -qF "make test KILN=$(dirname "$(realpath "$built")")/kiln" "$work/said.txt"; verdict where_kiln_is_stands_there $?
(cd from-sources && PATH=${PATH#*:} make KILN="$built" test) >"$work/said.txt" 2>&1; verdict a_build_tree_will_do $?
grep -q 'id: com.example.from-sources' from-sources/kiln-plugin.yaml && grep -q '"com.example.from-sources"' from-sources/from_sources.c; verdict the_id_that_was_asked_for $?
(cd from-sources && PATH=/usr/bin:/bin PKG_CONFIG_LIBDIR=/nowhere make -B KILN=nowhere) >"$work/said.txt" 2>&1; [ $? -ne 0 ] && grep -q 'pkg-config finds no kiln.pc: say where kiln is, with make KILN=PATH' "$work/said.txt"; verdict without_a_kiln_it_is_said $?

# ---- each test sees a wrong plugin
wrong() { # FOLDER SED: the change is one, and the test fails for it
    rm -rf changed && cp -r "$1" changed && rm -f changed/*.so && sed -i "$2" changed/*.c* && ! cmp -s changed/*.c* "$1"/*.c* || { echo "the change is none" >"$work/said.txt"; return 1; }
    (cd changed && make CFLAGS='-O2 -w' CXXFLAGS='-O2 -w' test) >"$work/said.txt" 2>&1
    [ $? -ne 0 ] && grep -q "$3" "$work/said.txt"
}
wrong soft-node-cpp 's/v < 1 ? v : 1/v < 1 ? v * 0.9 : 1/' 'FAIL twice_64_is_128'; verdict the_node_test_in_c++_sees_it_too $?
wrong soft-node-c 's/v < 1 ? v : 1/v < 1 ? v * 0.9 : 1/' 'FAIL twice_64_is_128'; verdict the_node_test_sees_another_factor $?
wrong soft-node-c 's/"0.1.0", "MIT"/"0.2.0", "MIT"/' "version '0.1.0' in the manifest, '0.2.0' in the plugin"; verdict a_manifest_that_differs_is_seen $?
wrong soft-sampler-c 's/1 - ratio}/1 - ratio * 0.9}/' 'FAIL it_draws_what_euler_draws\|FAIL law'; verdict the_sampler_test_sees_another_step $?
grep -q 'name = "soft_sampler_c"' soft-sampler-c/soft_sampler_c.c && grep -q 'sampler_name: soft_sampler_c,' soft-sampler-c/soft-sampler-c.yaml; verdict a_samplers_name_has_underscores $?
rm -rf changed && cp -r soft-sampler-c changed && sed -i 's/width: 128, height: 128/width: 64, height: 64/' changed/soft-sampler-c.yaml
(cd changed && make test) >"$work/said.txt" 2>&1; [ $? -ne 0 ] && grep -q 'FAIL there_is_a_picture' "$work/said.txt"; verdict the_sampler_test_sees_a_blank_picture $?
rm -rf changed && cp -r soft-sampler-c changed && sed -i 's/sampler_name: euler/sampler_name: heun/' changed/soft-sampler-c.yaml
(cd changed && make test) >"$work/said.txt" 2>&1; [ $? -ne 0 ] && grep -q 'FAIL it_draws_what_euler_draws: .* of their size apart' "$work/said.txt"; verdict the_sampler_test_sees_another_method $?
rm -rf changed && cp -r soft-sampler-c changed && rm changed/*.so && sed -i 's/{ratio, 1 - ratio}/{1e300 * 1e300, 1}/' changed/*.c && make -C changed >"$work/said.txt" 2>&1 && kiln run changed/soft-sampler-c.yaml --plugins changed --no-cache --out out >"$work/said.txt" 2>&1
grep -q "sampler 'soft_sampler_c' of org.example.soft-sampler-c asked the model about a number that is not finite" "$work/said.txt"; verdict a_sampler_that_diverges_is_named_with_its_plugin $?
wrong soft-guider-c 's/guess.NEGATIVE., ((/guess[NEGATIVE], 0.5 * ((/' 'FAIL it_guides'; verdict the_guider_test_sees_another_scale $?
wrong soft-model-c 's/return o->add(p, h, o->reshape/return o->add(p, o->affine(p, h, 1, 0.1f), o->reshape/' 'FAIL a_network_of_zeros'; verdict the_model_test_sees_another_network $?
wrong soft-op-c 's/y\[i\] = y\[i - row\] > x\[i\]/y[i] = y[i - row] > x[i] + 0.1f/' 'FAIL f32\|FAIL op'; verdict the_op_test_sees_a_fast_form_that_differs $?

# ---- what cannot be: a sentence, status 2, nothing left
refused() { # WORDS ARGUMENT...
    local words=$1; shift
    kiln plugin new "$@" >"$work/said.txt" 2>&1
    [ $? -eq 2 ] && grep -qF -- "$words" "$work/said.txt" && [ "$(ls -A)" = "$before" ]
}
mkdir empty && cd empty && touch taken && ln -s nowhere dangling && before=$(ls -A)
refused "'Soft Glow' is no name for a plugin; it is like soft-glow" "Soft Glow"; verdict a_name_with_blanks $?
refused "'a_b' is no name for a plugin; call the plugin a-b, and its sampler will be a_b" a_b --kind sampler; verdict underscores_are_the_samplers $?
refused "a letter first, 40 at most; call it a-b" a_b; verdict underscores_are_hyphens $?
refused "would bring 'euler_ancestral', and org.kiln.sampler has that" euler-ancestral --kind sampler; verdict a_sampler_of_kilns_with_an_underscore $?
refused "is no name for a plugin" ../up; verdict a_name_with_folders $?
refused "is no name for a plugin" 3d; verdict a_name_that_begins_with_a_digit $?
refused "is no name for a plugin" a--b; verdict two_hyphens $?
refused "is no name for a plugin" "$(printf 'a%.0s' {1..41})"; verdict a_name_that_is_too_long $?
refused "there is a 'taken' here already" taken; verdict a_file_of_that_name $?
refused "there is a 'dangling' here already" dangling; verdict a_link_of_that_name $?
refused "image-invert would bring 'ImageInvert', and org.kiln.image has that already" image-invert; verdict a_node_of_kilns $?
refused "would bring 'euler', and org.kiln.sampler has that already" euler --kind sampler; verdict a_sampler_of_kilns $?
refused "--kind sampeler: it is node, sampler, guider, model or op; did you mean 'sampler'?" x --kind sampeler; verdict an_unknown_kind $?
refused "--lang pascal: it is c, c++ or rust" x --lang pascal; verdict an_unknown_language $?
refused "an id begins with a domain of yours" x --id glow; verdict an_id_without_a_domain $?
refused "an id begins with a domain of yours" x --id org.kiln.glow; verdict an_id_of_kilns $?
refused "kiln plugin new: it wants a NAME"; verdict no_name $?
refused "kiln plugin new takes no --replace" x --replace; verdict an_option_of_another_action $?
kiln plugin nwe x >"$work/said.txt" 2>&1; [ $? -eq 2 ] && grep -q "no action 'nwe'; did you mean 'new'?" "$work/said.txt"; verdict an_unknown_action $?
if [ "$(id -u)" -ne 0 ]; then
    chmod a-w . && refused "no folder can be made here" x; verdict a_folder_that_cannot_be_written $?; chmod u+w .
fi
(ulimit -f 1 && trap '' XFSZ && kiln plugin new x) >"$work/said.txt" 2>&1; [ $? -eq 1 ] && [ "$(ls -A)" = "$before" ]; verdict a_full_disk_leaves_nothing $?
mkdir -p "$work/broken/bin" "$work/broken/share/kiln" && cp "$built" "$work/broken/bin/" && cp -R "$KILN_ROOT/plugins/templates" "$work/broken/share/kiln/"
rm "$work/broken/share/kiln/templates/node/node_template.c"
"$work/broken/bin/kiln" plugin new x >"$work/said.txt" 2>&1; [ $? -eq 1 ] && grep -q 'node_template.c: cannot open' "$work/said.txt" && [ "$(ls -A)" = "$before" ]; verdict a_lost_template_leaves_nothing $?
exit $status
