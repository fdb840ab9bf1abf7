# test_completions.sh - help, man pages and completions are made of one table: help fits 80 columns, man pages have no fault that groff sees, and what
# each shell offers is asked of the shell itself.
. "$KILN_ROOT/tests/cli/head.sh"
export KILN_CONFIG=off PATH="$PWD/$KILN_BUILD:$PATH"
mapfile -t commands < <("$kiln" completions names manual)
same every_command "${#commands[@]}" "$("$kiln" help | grep -cE '^  [a-z-]+  ')"

# ---- help
wide=""
for c in "" "${commands[@]}"; do wide+=$("$kiln" help $c | awk -v c="$c" 'length($0) > 80 { print c ": " $0 }'); done
same help_fits_80_columns "$wide" ""
# What is filled is all there: each option's text as one line again, against the table in the sources.
filled=$("$kiln" run --help | tr -s ' \n' ' ')
check no_word_is_lost grep -qF -- "--memory SIZE use at most this much of the device's memory, as 1200M or 4G (also KILN_MEMORY; default: what is free)" <<<"$filled"

# ---- man pages
for c in "" "${commands[@]}"; do
    page="$work/kiln${c:+-$c}.1"
    "$kiln" manual $c >"$page" || bad "manual_of_$c" "it does not print"
    for o in $("$kiln" help $c | grep -oE '^  (-[a-z], )?--[a-z-]+' | grep -oE -- '--[a-z-]+'); do
        grep -qF -- "${o//-/\\-}" "$page" || bad "manual_${c}_$o" "the man page does not have $o"
    done
done
if command -v groff >/dev/null; then
    faults=$(for page in "$work"/*.1; do groff -man -Tutf8 -ww -z "$page" 2>&1; done)
    same groff_finds_no_fault "$faults" ""
    same pages_fit_80_columns "$(for page in "$work"/*.1; do groff -man -rLL=78n -Tascii -P-cbou "$page" | awk 'length($0) > 80'; done)" ""
    groff -man -Tascii -P-cbou "$work/kiln-run.1" >"$work/run.txt"
    check a_page_reads_as_text grep -q -- '--over-file FILE' "$work/run.txt"
    check and_keeps_hyphens_and_examples grep -qF "kiln run workflows/txt2img.yaml --set seed=7 --out pictures" "$work/run.txt"
else
    echo "skip man pages: groff is not installed"
fi
expect manual_of_nothing 2 "did you mean 'run'" "$kiln" manual rnu

# ---- names
check names_of_nodes grep -qx KSampler <("$kiln" completions names nodes)
check names_of_samplers grep -qx euler <("$kiln" completions names samplers)
check names_of_types grep -qx LATENT <("$kiln" completions names types)
check names_of_ops grep -qx attention <("$kiln" completions names ops)
# What --set takes in a workflow: a faulty one and one whose models are elsewhere are read too.
flow="$PWD/workflows/txt2img.yaml"
check settings_of_a_workflow grep -q "^prompt	" <("$kiln" completions settings "$flow")
check and_inputs_of_its_nodes grep -q "^sampler.cfg	\|^sampler.sampler_name	" <("$kiln" completions settings "$flow")
same settings_of_a_shipped_one "$(cd "$work" && "$kiln" completions settings workflows/txt2img.yaml)" "$("$kiln" completions settings "$flow")"
check values_of_a_sampler grep -qx euler_ancestral <("$kiln" completions settings "$flow" sampler.sampler_name)
check values_of_a_file grep -qx shapes-sd1 <("$kiln" completions settings "$flow" model.ckpt_name)
check an_alias_is_a_value grep -qx base <(KILN_ALIASES=base=shapes-sd1 "$kiln" completions settings "$flow" model.ckpt_name)
same values_of_a_seed "$("$kiln" completions settings "$flow" seed)" random
same a_text_has_no_values "$("$kiln" completions settings "$flow" prompt)" ""
expect settings_of_no_file 2 "nowhere.yaml" "$kiln" completions settings nowhere.yaml
expect names_of_what_has_none 2 "takes no names" "$kiln" completions names run
expect a_shell_we_do_not_know 2 "bash, zsh or fish" "$kiln" completions tcsh

# ---- bash: its own completion, on words as it splits them
mkdir "$work/place" && cp workflows/txt2img.yaml "$work/place/set me.yaml" && cp workflows/txt2img.yaml "$work/place/t2i.yaml" && touch "$work/place/flow.yaml" "$work/place/with blank.yaml" && mkdir "$work/place/pictures"
cat >"$work/ask.bash" <<'B'
source <("$1" completions bash); shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_kiln
printf '%s\n' "${COMPREPLY[@]}"
B
of_bash() { (cd "$work/place" && bash "$work/ask.bash" "$kiln" "$@" 2>/dev/null | LC_ALL=C sort | paste -sd' '); }
same bash_commands "$(of_bash kiln ch)" "check check-plugin"
same bash_options "$(of_bash kiln run --sav)" "--save-state"
same bash_options_of_another "$(of_bash kiln cache --so)" "--sort"
same bash_words_of_an_option "$(of_bash kiln run flow.yaml --precision f)" "f16 f32"
same bash_after_an_equals_sign "$(of_bash kiln run flow.yaml --precision = b)" "bf16"
same bash_and_nothing_behind_it "$(of_bash kiln cache --sort =)" "size time use"
same bash_folders "$(of_bash kiln run flow.yaml --out "")" "pictures"
same bash_files "$(of_bash kiln run f)" "flow.yaml"
same bash_files_with_blanks "$(of_bash kiln run w)" "with blank.yaml"
same bash_actions "$(of_bash kiln cache v)" "verify"
same bash_nodes "$(of_bash kiln nodes KSamplerS)" "KSamplerSelect"
same bash_free_text "$(of_bash kiln run flow.yaml --threads "")" ""
same bash_settings "$(of_bash kiln run t2i.yaml --set pro)" "prompt="
same bash_settings_of_nodes "$(of_bash kiln run t2i.yaml --set sampler.sam)" "sampler.sampler_name="
same bash_an_axis "$(of_bash kiln run t2i.yaml --over see)" "seed="
same bash_a_value "$(of_bash kiln run t2i.yaml --set sampler.sampler_name = euler_a)" "euler_ancestral euler_ancestral_cfg_pp"
same bash_the_first_of_values "$(of_bash kiln run t2i.yaml --set seed =)" "random"
same bash_a_value_in_one_word "$(of_bash kiln run t2i.yaml --set sampler.sampler_name=ddp)" "sampler.sampler_name=ddpm"
same bash_behind_equals_signs "$(of_bash kiln run t2i.yaml --set = sampler.sampler_name = ddp)" "ddpm"
same bash_another_setting_before_it "$(of_bash kiln run --models "$PWD" --set seed = 3 t2i.yaml --set pro)" "prompt="
same bash_a_file_with_blanks "$(of_bash kiln run "'set me.yaml'" --set pro)" "prompt="
same bash_a_text_may_be_a_file "$(of_bash kiln run t2i.yaml --set prompt = fl)" "flow.yaml"
same bash_settings_of_no_workflow "$(of_bash kiln run nowhere.yaml --set pro)" ""
same bash_options_go_on "$(of_bash kiln run t2i.yaml --set seed = 3 --sav)" "--save-state"
same bash_manual "$(of_bash kiln manual qu)" "quantize"
if command -v python3 >/dev/null; then
    # What a person sees who presses the tab key.
    cat >"$work/press.py" <<'P'
import os, pty, select, sys, time
pid, fd = pty.fork()
if pid == 0:
    os.environ.update(PS1="$ ", TERM="dumb")
    os.execvp(sys.argv[1], sys.argv[1:-1])
seen = b""
def wait(word, limit=20):
    global seen
    end = time.time() + limit
    while word not in seen and time.time() < end:
        if select.select([fd], [], [], 0.2)[0]:
            try: seen += os.read(fd, 4096)
            except OSError: break
    return word in seen
for step in sys.argv[-1].split("|"):
    send, _, want = step.partition("=>")
    seen = b""
    os.write(fd, send.encode().decode("unicode_escape").encode())
    if want and not wait(want.encode()): print("no", want, "in", seen); sys.exit(1)
P
    check bash_by_the_tab_key python3 "$work/press.py" bash --norc --noprofile -i "source <('$kiln' completions bash); echo rea''dy\\n=>ready|kiln quan\\t=>tize|--ty\\t=>pe"
else
    echo "skip bash_by_the_tab_key: no python3"
fi

# ---- zsh
if command -v zsh >/dev/null; then
    mkdir -p "$work/fpath" && "$kiln" completions zsh >"$work/fpath/_kiln"
    check zsh_reads_it zsh -f -n "$work/fpath/_kiln"
    cat >"$work/ask.zsh" <<'Z'
# What zsh's own completion adds for a line: compadd is watched in a shell on a pseudo-terminal.
zmodload zsh/zpty
zpty asked zsh -f -i
zpty -w asked "PROMPT= ; fpath=($1 \$fpath); cd $2; autoload -U compinit; compinit -u -D; zstyle ':completion:*' list-grouped false"
zpty -w asked 'compadd() { if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
    typeset -a __hits; builtin compadd -A __hits "$@"; print -rl -- "HIT:"${^__hits}; builtin compadd "$@" }'
zpty -w asked "zle -C ask complete-word ask; ask() { _main_complete; print END; compstate[insert]= ; }; bindkey '^I' ask; print REA''DY"
zpty -r -m asked line '*READY*'
zpty -w -n asked "$3"$'\t'
zpty -r -m asked line '*END*'
print -r -- "$line" | tr -d '\r' | grep -o 'HIT:[^ ]*' | sed 's/HIT://' | LC_ALL=C sort -u | tr '\n' ' '
Z
    of_zsh() { timeout 60 zsh -f "$work/ask.zsh" "$work/fpath" "$work/place" "$1" | sed 's/ $//'; }
    same zsh_commands "$(of_zsh 'kiln chec')" "check check-plugin"
    same zsh_options "$(of_zsh 'kiln run --sav')" "--save-state"
    same zsh_words_of_an_option "$(of_zsh 'kiln run flow.yaml --precision f')" "f16 f32"
    same zsh_files "$(of_zsh 'kiln run f')" "flow.yaml"
    same zsh_settings "$(of_zsh 'kiln run t2i.yaml --set pro')" "prompt"
    same zsh_a_value "$(of_zsh 'kiln run t2i.yaml --set sampler.sampler_name=euler_a')" "euler_ancestral euler_ancestral_cfg_pp"
    same zsh_an_axis_behind_another "$(of_zsh 'kiln run --models . --set seed=3 t2i.yaml --over see')" "seed"
    same zsh_names "$(of_zsh 'kiln samplers dpm_a')" "dpm_adaptive"
else
    echo "skip zsh: not installed"
fi

# ---- fish
if command -v fish >/dev/null; then
    export HOME="$work/home" && mkdir -p "$HOME/.config/fish/completions" && "$kiln" completions fish >"$HOME/.config/fish/completions/kiln.fish"
    check fish_reads_it fish --no-execute "$HOME/.config/fish/completions/kiln.fish"
    of_fish() { (cd "$work/place" && fish -c "complete -C '$1'" 2>&1 | cut -f1 | LC_ALL=C sort | paste -sd' '); }
    same fish_commands "$(of_fish 'kiln chec')" "check check-plugin"
    same fish_options "$(of_fish 'kiln run --sav')" "--save-state"
    same fish_words_of_an_option "$(of_fish 'kiln run flow.yaml --precision f')" "f16 f32"
    same fish_files "$(of_fish 'kiln run fl')" "flow.yaml"
    same fish_settings "$(of_fish 'kiln run t2i.yaml --set pro')" "prompt="
    same fish_a_value "$(of_fish 'kiln run t2i.yaml --set sampler.sampler_name=euler_a')" "sampler.sampler_name=euler_ancestral sampler.sampler_name=euler_ancestral_cfg_pp"
    same fish_an_axis_behind_another "$(of_fish 'kiln run --models . --set seed=3 t2i.yaml --over see')" "seed="
    same fish_a_text_may_be_a_file "$(of_fish 'kiln run t2i.yaml --set prompt=fl')" "prompt=flow.yaml"
    same fish_names "$(of_fish 'kiln samplers dpm_a')" "dpm_adaptive"
    same fish_option_of_another_command_is_not_there "$(of_fish 'kiln check --over')" ""
else
    echo "skip fish: not installed"
fi
exit $status
