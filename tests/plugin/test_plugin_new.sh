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
        [ -z "$(grep -rilE 'my.?plugin' "$name")" ] && [ -s "$name/.github/workflows/test.yml" ] && [ -s "$name/.gitignore" ]; verdict "${kind}_${lang}_has_its_own_name_everywhere" $?
        make_one "$name"; verdict "${kind}_${lang}_builds_and_passes_its_test" $?
        grep -q 'checks passed, 0 failed' "$work/said.txt" && grep -q '  ok   manifest' "$work/said.txt" && grep -q '^ok   [a-zA-Z0-9_]*$' "$work/said.txt"; verdict "${kind}_${lang}_was_tested" $?
    done
done

# ---- Rust: Debian 12's cargo is new enough; what bindgen makes of the headers is what is there
kiln plugin new rusty --lang rust >"$work/said.txt" 2>&1 && [ -s rusty/rusty.rs ] && [ -s rusty/Cargo.toml ] && [ -z "$(grep -rilE 'my.?plugin|@CRATE@' rusty)" ]; verdict rust_is_made $?
cargo=/usr/bin/cargo; [ -x $cargo ] || cargo=$(command -v cargo)
if [ -n "$cargo" ]; then
    rust() { (cd "$1" && PATH=$(dirname "$cargo"):$PATH CARGO_HOME="$work/cargo" CARGO="$cargo" RUSTFLAGS='-D warnings' make test) >"$work/said.txt" 2>&1; }
    rust rusty && grep -q 'checks passed, 0 failed' "$work/said.txt" && grep -q '^ok   twice_64_is_128' "$work/said.txt"; verdict rust_builds_and_passes_its_test $?
    sed -i 's/\.min(1.0)/.min(0.4)/' rusty/rusty.rs; ! rust rusty && grep -q 'FAIL twice_64_is_128' "$work/said.txt"; verdict the_node_test_in_rust_sees_another_factor $?
    sed -i 's/let n = from.len();/let n = from.len(); if n > 0 { panic!("no") }/' rusty/rusty.rs; ! rust rusty && grep -q 'it panicked' "$work/said.txt"; verdict a_panic_is_a_message $?
    sed -i 's/if n > 0 { panic!("no") }/if n > 0 { return Err(Error::invalid("100% of it is wrong")); }/' rusty/rusty.rs; rust rusty; (cd rusty && kiln run rusty.yaml --plugins . --no-cache --out out) >"$work/said.txt" 2>&1; grep -q "(Rusty): 100% of it is wrong" "$work/said.txt"; verdict an_error_is_a_message $?
else
    echo "skip rust_builds_and_passes_its_test: there is no cargo"
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
refused "there are templates in Rust for nodes alone; c and c++ have this kind" x --lang rust --kind sampler; verdict rust_is_for_nodes $?
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
