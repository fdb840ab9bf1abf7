# language.sh - what the tests of the language models here share. To be sourced; $family is set, then the plugin is built.
here="$KILN_ROOT/tests/strangers/language" input="$KILN_ROOT/tests/strangers/language"
. "$KILN_ROOT/tests/strangers/goldens/goldens.sh"
build language.so "$here"/*.c && build goldens.so "$KILN_ROOT/tests/strangers/goldens/golden_nodes.c"; verdict builds_against_the_installed_headers $?
[ -z "$(readelf -d "$work/plugins/language.so" | grep NEEDED | grep -vE 'libc\.|libm\.|libjansson\.')" ]; verdict links_nothing_of_kilns $?

said() { sed -n "s/^$1 //p" "$here/$family.txt"; } # what transformers says
prompt=$(said prompt) all="$(said prompt) $(said greedy)"
begin() { printf 'kiln: 1\nnodes:\n  model: {class_type: ExampleLanguageModelLoader, inputs: {file: %s.safetensors}}\n' "$family"; }
read_() { # NAME IDS [STATE] [INPUTS]
    echo "  $1: {class_type: ExampleLanguage${kind:-Read}, inputs: {model: [model, 0], ids: \"$2\"${3:+, state: [$3]}${4:+, $4}}}"
}
score() { kind=Score read_ "$@"; }
generate() { # NAME STATE TOKENS
    echo "  $1: {class_type: ExampleLanguageGenerate, inputs: {model: [model, 0], state: [$2], tokens: $3}}"
    echo "  text_$1: {class_type: TestText, inputs: {text: [$1, 0], name: $1}}"
}
golden() { # NAME GOLDEN: the logits of node NAME
    echo "  golden_$1: {class_type: TestGolden, inputs: {value: [$1, 0], file: $family.goldens.safetensors, name: golden.$2}}"
}
bytes() { echo "  bytes_$1: {class_type: TestBytes, inputs: {value: [$1, 0], name: $1}}"; }
writes() { # RUN NAME WORDS...: in that run node NAME made these tokens
    local run=$1 name=$2 got; shift 2
    got=$(sed -n "s/^text $name //p" "$work/$run.txt" | head -n 1)
    [ "$got" = "$*" ] || { echo "  $name: '$got' and not '$*'"; grep 'error' "$work/$run.txt" | head -n 3; false; }
    verdict "${run}_$name" $?
}
logits_as() { # VERDICT MOST RUN: the one golden of that run
    local error; error=$(sed -n 's/^golden [^ ]* //p' "$work/$3.txt" | head -n 1)
    awk -v e="${error:-none}" -v most="$2" 'BEGIN { exit !(e != "none" && e != "nan" && e + 0 <= most) }'
    result=$?; [ $result -eq 0 ] || grep -v '^golden' "$work/$3.txt" | tail -n 5
    echo "# $1: ${error:-not compared}"
    verdict "$1" $result
}
judge() { # NAME MOST ARG...: the workflow on standard input has one golden
    local name=$1 most=$2; shift 2
    cat >"$work/$name.yaml"
    "$kiln" run "$work/$name.yaml" --no-cache --plugins "$work/plugins" --models "$here/models" --input "$here" --out "$work/$name" "$@" >"$work/$name.txt" 2>&1
    logits_as "$name" "$most" "$name"
}
killed_generation() { # WORKFLOW NODE: killed in the middle and run once more, it goes on and ends with the same tokens
    local file=$1 begun
    killed_midway "$file" 20 "grep -q '^text $2 ' '$work/cut.txt'" && run undisturbed "$file" --no-cache || return 1
    run rest "$file" --cache "$work/cache" --events "$work/events" || return 1
    begun=$(steps_of "$work/events" | head -n 1)
    [ "${begun:-0}" -gt 1 ] && [ "$(grep "^text $2 " "$work/rest.txt")" = "$(grep "^text $2 " "$work/undisturbed.txt")" ] ||
        { echo "  begun at step ${begun:-?}"; return 1; }
}

# ---- what every one of them has to do

# one prompt, read in one go and in pieces; all of the text in one go and token by token
{ begin; score x "$prompt"; golden x prompt; } | judge prompt 1e-5 --precision f32
{ begin; score x "$prompt" "" "piece: 4"; golden x prompt; } | judge in_pieces 1e-5 --precision f32
{ begin; score x "$all"; golden x all; } | judge long 1e-5 --precision f32
{ begin; score x "$all" "" "piece: 1"; golden x all; } | judge token_by_token 1e-5 --precision f32
{ begin; score x "$prompt"; golden x prompt; } | judge prompt_bf16 2e-2 --precision bf16
{ begin; score x "$all" "" "piece: 1"; golden x all; } | judge token_by_token_bf16 2e-2 --precision bf16

# greedy text; two texts that share a beginning; sequences of unequal lengths side by side
everything() {
    begin
    read_ read "$prompt"
    generate greedy "read, 0" 24
    generate first "read, 0" 10; generate then "first, 1" 14
    read_ left "$(said ending_left)" "read, 0"; read_ right "$(said ending_right)" "read, 0"
    generate greedy_left "left, 0" 8; generate greedy_right "right, 0" 8
    read_ both "$prompt $(said ending_left) | $prompt $(said ending_right)"; generate batch "both, 0" 8
    read_ pieces "$prompt $(said ending_left) | $prompt $(said ending_right)" "" "piece: 4"; generate batch_in_pieces "pieces, 0" 8
    read_ three "$(said ending_right) | $all | $prompt"; generate unequal "three, 0" 8
    read_ short "$(said ending_right)"; generate alone_short "short, 0" 8
    read_ long "$all"; generate alone_long "long, 0" 8
    score scored "$prompt | $all"; bytes scored
}
everything >"$work/all.yaml"
run all "$work/all.yaml" --no-cache; verdict runs $?
# shellcheck disable=SC2046
{
    writes all greedy $(said greedy)
    writes all first $(said greedy | cut -d ' ' -f 1-10)
    writes all then $(said greedy | cut -d ' ' -f 11-24)
    writes all greedy_left $(said greedy_left)
    writes all greedy_right $(said greedy_right)
    writes all batch $(said greedy_left) '|' $(said greedy_right)
    writes all batch_in_pieces $(said greedy_left) '|' $(said greedy_right)
}
line() { sed -n "s/^text $1 //p" "$work/all.txt"; }
[ -n "$(line alone_short)" ] && [ "$(line unequal)" = "$(line alone_short) | $(line alone_long) | $(said greedy | cut -d ' ' -f 1-8)" ]; verdict unequal_lengths_as_each_alone $?

# the same bytes for any number of threads
run one "$work/all.yaml" --no-cache --threads 1; run four "$work/all.yaml" --no-cache --threads 4
[ -s "$work/one/scored_00001_.f32" ] && cmp "$work/one/scored_00001_.f32" "$work/four/scored_00001_.f32"; verdict the_same_bytes_for_any_threads $?

# and in the least memory: states are on the account, weights are streamed
{ begin; read_ read "$prompt"; generate first "read, 0" 10; score scored "$prompt | $all"; bytes scored; } >"$work/least.yaml"
in_the_least_memory "$work/least.yaml" scored_00001_.f32 "$work/one/scored_00001_.f32"; verdict the_same_bytes_in_the_least_memory $?

# looked at without running
run dry "$work/all.yaml" --no-cache --dry-run && ! grep -q '^text '"$work/dry.txt"; verdict a_dry_run_runs_nothing $?
run explained "$work/all.yaml" --no-cache --explain && grep -qE "^read +ExampleLanguageRead +[0-9a-f]+ +[0-9.]+ kB" "$work/explained.txt"; verdict is_explained $?

# what was read is kept: another process goes on from it and does not read it again
{ begin; read_ read "$prompt"; generate first "read, 0" 10; } >"$work/first.yaml"
{ begin; read_ read "$prompt"; generate first "read, 0" 10; generate then "first, 1" 14; } >"$work/then.yaml"
rm -rf "$work/cache"
run stored "$work/first.yaml" --cache "$work/cache" && run stored "$work/then.yaml" --cache "$work/cache" --events "$work/stored.events"
# shellcheck disable=SC2046
writes stored then $(said greedy | cut -d ' ' -f 11-24)
! grep -q '"what": "token"' "$work/stored.events" && grep -q '"node": "then".*"what": "step"' "$work/stored.events"; verdict what_was_read_is_not_read_again $?
{ begin; read_ read "$prompt" "" "room: 3000"; generate killed "read, 0" 2900; } >"$work/killed.yaml"
killed_generation "$work/killed.yaml" killed; verdict killed_it_goes_on $?

# on a device, where there is an emulated one
on_device device "$work/all.yaml" && {
    # shellcheck disable=SC2046
    writes device greedy $(said greedy)
    # shellcheck disable=SC2046
    writes device batch $(said greedy_left) '|' $(said greedy_right)
}

# bad use
{ begin; read_ x "3 9999"; generate y "x, 0" 1; } >"$work/outside.yaml"
refused a_token_that_is_none "$work/outside.yaml" 1 "node 'x' \(ExampleLanguageRead\): ids: '9999' is no token; they are numbers from 0 to"
{ begin; read_ x "$prompt" "" "room: 12"; generate y "x, 0" 5; } >"$work/full.yaml"
refused a_full_state "$work/full.yaml" 1 "node 'y' \(ExampleLanguageGenerate\): 1 tokens after 12 do not fit into room for 12"
