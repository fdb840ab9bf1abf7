# test_stranger.sh - a plugin that is none of kiln's, made of the public headers alone, has every kind of tokenizer: plugins/examples/tokens.c
# is built outside the tree and run.
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
export XDG_CACHE_HOME="$work/cache"
unset KILN_PLUGIN_PATH
kiln="$KILN_ROOT/$KILN_BUILD/kiln" data="$KILN_ROOT/tests/tokenizer/data"
cp -r "$KILN_ROOT/include" "$work/include" && cp "$KILN_ROOT/plugins/examples/tokens.c" "$work/" && cd "$work" || exit 2
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else cat run.txt; echo "FAIL $1"; status=1; fi
}
mkdir plugins input
gcc -std=c11 -O1 -Wall -Wextra -Werror -fPIC -fvisibility=hidden -shared -Iinclude tokens.c -o plugins/tokens.so >run.txt 2>&1; verdict it_builds_with_the_public_headers $?
g++ -std=c++17 -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c++ include/kiln/tokenizer.h >run.txt 2>&1; verdict the_header_is_c++_too $?
cat >tokens.yaml <<'Y'
nodes:
  tokens: { class_type: ExampleTokens, inputs: { tokenizer: tokenizer.json, text: "a cat", ends: true } }
  say: { class_type: ExampleSay, inputs: { text: [tokens, STRING] } }
Y
cut() { # FILE NAME TEXT
    cp "$data/$1" "input/$2"
    "$kiln" run tokens.yaml --plugins plugins --set "tokens.tokenizer=$2" --set "tokens.text=$3" >run.txt 2>&1
}
cut gpt2/tokenizer.json tokenizer.json "a photo of a cat" && grep -q 'byte-bpe of ' run.txt && grep -qE '[0-9]+ 0 1$' run.txt && grep -q 'a photo of a cat$' run.txt
verdict byte_bpe $?
cut llama/tokenizer.model tokenizer.model "a cat" && grep -q 'sp-bpe of ' run.txt && grep -qE '1 0 0$' run.txt; verdict sentencepiece_bpe_with_its_begin_token $?
cut t5/t5.gguf t5.gguf "a cat" && grep -q 'sp-unigram of ' run.txt && grep -qE '2 5 5$' run.txt; verdict unigram_of_a_gguf_with_its_end_token $?
cut bert/vocab.txt vocab.txt "A Cat" && grep -q 'wordpiece of ' run.txt && grep -q 'a cat$' run.txt; verdict wordpiece $?
printf 'no tokenizer' >input/bad.gguf
"$kiln" run tokens.yaml --plugins plugins --set tokens.tokenizer=bad.gguf >run.txt 2>&1; [ $? -eq 1 ] && grep -q "tokens.*bad.gguf: byte 0: no GGUF file" run.txt; verdict a_file_that_is_none_is_a_sentence $?
"$kiln" check-plugin plugins/tokens.so >run.txt 2>&1; verdict check_plugin $?
"$kiln" plugins >run.txt 2>&1; grep -q 'org.kiln.tokenizer' run.txt; verdict the_plugin_is_listed $?
exit $status
