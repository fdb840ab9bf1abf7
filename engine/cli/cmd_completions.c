/* cmd_completions.c - `kiln completions`: scripts for shells, made of the tables of options, and the names that those
 * scripts ask for. */
#include "base/print.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/open_catalog.h"
#include "cli/settable.h"
#include "graph/op_docs.h"
#include "plugin/abilities.h"
#include "plugin/value_types.h"

#include <string.h>

static const option completion_options[] = {
    {"--models", 0, "DIRS", "look for models here first (also KILN_MODELS)", 0},
    PLUGINS_OPTION,
};
const manual manual_completions = {
    .usage = "kiln completions bash|zsh|fish | names COMMAND | settings FILE [NAME]",
    .about =
        "Prints what makes a shell complete kiln's commands, options and names. `make install` puts each where its "
        "shell looks. `names COMMAND` lists what the command's operand can be, one a line; `settings FILE` what --set "
        "can change in a workflow, and with a NAME the values that it can be given.",
    .options = completion_options,
    .n_options = sizeof completion_options / sizeof completion_options[0],
    .examples = "  kiln completions bash > kiln.bash   # and source it, or\n"
                "  kiln completions zsh > _kiln   # into a folder of fpath\n"
                "  kiln completions fish > kiln.fish   # into ~/.config/fish/completions\n"
                "  kiln completions settings workflows/txt2img.yaml\n",
    .operand = OPERAND_WORD,
    .words = "bash zsh fish names settings",
};

typedef enum { VALUE_TEXT, VALUE_FILE, VALUE_FOLDER, VALUE_WORDS, VALUE_SETTING } option_value;

static option_value kind_of(const option *o)
{
    static const char *const files[] = {"FILE", "PATHS", "LIST"}, *const folders[] = {"DIR", "DIRS"};
    if (strchr(o->value, '|')) return VALUE_WORDS;
    if (strncmp(o->value, "NAME=", 5) == 0) return VALUE_SETTING;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (strcmp(o->value, files[i]) == 0) return VALUE_FILE;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        if (strcmp(o->value, folders[i]) == 0) return VALUE_FOLDER;
    return VALUE_TEXT;
}

/* "a|b|c" with blanks between. */
static void put_words(str *s, const char *value)
{
    for (; *value; value++) str_char(s, *value == '|' ? ' ' : *value);
}

/* Every option that takes a value, a blank before and behind each: what stands after one is no workflow. */
static void put_valued(str *s, const manual *m)
{
    str_char(s, ' ');
    for (size_t i = 0; i < m->n_options; i++) {
        if (!m->options[i].value) continue;
        str_printf(s, "%s ", m->options[i].name);
        if (m->options[i].letter) str_printf(s, "-%c ", m->options[i].letter);
    }
}

static int has_settings(const manual *m)
{
    for (size_t i = 0; i < m->n_options; i++)
        if (m->options[i].value && kind_of(&m->options[i]) == VALUE_SETTING) return 1;
    return 0;
}

/* The first clause of an option's help. */
static size_t clause(const char *help)
{
    static const char *const ends[] = {" (", "; ", ": "};
    size_t n = strlen(help);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const char *at = strstr(help, ends[i]);
        if (at && (size_t)(at - help) < n) n = (size_t)(at - help);
    }
    return n;
}

/* In single quotes; a backslash before each of `special`. */
static void put_quoted(str *s, const char *text, size_t n, const char *special, const char *apostrophe)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\'') {
            str_append(s, apostrophe);
            continue;
        }
        if (strchr(special, text[i])) str_char(s, '\\');
        str_char(s, text[i]);
    }
}

/* ---- bash ---- */

static void bash_values(str *s, const option *o)
{
    str_printf(s, "        %s", o->name);
    if (o->letter) str_printf(s, " | -%c", o->letter);
    switch (kind_of(o)) {
    case VALUE_WORDS:
        str_append(s, ") _kiln_words \"");
        put_words(s, o->value);
        str_append(s, "\" && return ;;\n");
        return;
    case VALUE_FILE: str_append(s, ") _kiln_files -f && return ;;\n"); return;
    case VALUE_FOLDER: str_append(s, ") _kiln_files -d && return ;;\n"); return;
    case VALUE_SETTING: /* _kiln_set came first */
    case VALUE_TEXT: break;
    }
    str_append(s, ") return ;;\n");
}

static void bash_command(str *s, const command *c)
{
    const manual *m = c->manual;
    str_printf(s, "    %s)\n", c->name);
    if (has_settings(m)) str_append(s, "        _kiln_set \""), put_valued(s, m), str_append(s, "\" && return\n");
    str_append(s, "        case $prev in\n");
    for (size_t i = 0; i < m->n_options; i++)
        if (m->options[i].value) bash_values(s, &m->options[i]);
    str_append(s, "        esac\n        if [[ $cur == -* ]]; then _kiln_words \"--help");
    for (size_t i = 0; i < m->n_options; i++) str_printf(s, " %s", m->options[i].name);
    str_append(s, "\"\n");
    if (m->operand == OPERAND_WORKFLOW || m->operand == OPERAND_FILE) str_append(s, "        else _kiln_files -f\n");
    if (m->operand == OPERAND_WORD) str_printf(s, "        else _kiln_words \"%s\"\n", m->words);
    if (m->operand == OPERAND_NAME)
        str_printf(s, "        else _kiln_words \"$(\"${COMP_WORDS[0]}\" completions names %s 2>/dev/null)\"\n",
                   c->name);
    str_append(s, "        fi ;;\n");
}

static void put_commands(str *s)
{
    for (size_t i = 0; i < n_commands; i++) str_printf(s, "%s ", commands[i].name);
}

static void bash(str *s)
{
    str_append(
        s, "# bash completion for kiln, made by `kiln completions bash`\n"
           "_kiln_words() { local IFS=$' \\t\\n'; COMPREPLY=($(compgen -W \"$1\" -- \"$cur\")); }\n"
           "_kiln_files() {\n"
           "    compopt -o filenames 2>/dev/null\n"
           "    mapfile -t COMPREPLY < <(compgen \"$1\" -- \"$cur\")\n"
           "}\n"
           "# --set NAME=VALUE: the names that the workflow of this line has, and the values of one.\n"
           "_kiln_set() {\n"
           "    local i=$COMP_CWORD at name='' file='' typed=$cur before='' behind='=' line lines w\n"
           "    [[ ${COMP_WORDS[i]} == '=' ]] && at=$i typed=''\n"
           "    [[ ${COMP_WORDS[i-1]} == '=' ]] && at=$((i - 1))\n"
           "    if [[ -n $at && ${COMP_WORDS[at-1]} != -* ]]; then name=${COMP_WORDS[at-1]}; at=$((at - 2))\n"
           "    elif [[ -n $at ]]; then at=$((at - 1))\n"
           "    else at=$((i - 1)); fi\n"
           "    [[ ${COMP_WORDS[at]} == '=' ]] && at=$((at - 1))\n"
           "    case ${COMP_WORDS[at]} in --set|--over) ;; *) return 1 ;; esac\n"
           "    if [[ $typed == *=* ]]; then name=${typed%%=*} before=$name= typed=${typed#*=}; fi\n"
           "    for ((i = 2; i < ${#COMP_WORDS[@]}; i++)); do\n"
           "        w=${COMP_WORDS[i]}\n"
           "        [[ $i == \"$COMP_CWORD\" || $w == '=' || $w == -?* || ${COMP_WORDS[i-1]} == '=' ]] && continue\n"
           "        [[ $1 == *\" ${COMP_WORDS[i-1]} \"* ]] && continue\n"
           "        file=${w//[\\\\\\'\\\"]/} && file=${file/#\\~\\//$HOME/}; break\n"
           "    done\n"
           "    [[ -n $file ]] || return 0\n"
           "    [[ -z $name ]] || behind=''\n"
           "    mapfile -t lines < <(\"${COMP_WORDS[0]}\" completions settings \"$file\" ${name:+\"$name\"} "
           "2>/dev/null)\n"
           "    for line in \"${lines[@]}\"; do\n"
           "        w=${line%%$'\\t'*}\n"
           "        [[ $w == \"$typed\"* ]] && COMPREPLY+=(\"$before$(printf %q \"$w\")$behind\")\n"
           "    done\n"
           "    [[ -n $name ]] || compopt -o nospace 2>/dev/null\n"
           "    [[ -z $name || ${#lines[@]} -gt 0 ]] || _kiln_files -f\n"
           "    return 0\n"
           "}\n"
           "_kiln() {\n"
           "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
           "    COMPREPLY=()\n"
           "    if [[ $cur == '=' ]]; then cur=\n"
           "    elif [[ $prev == '=' ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
           "    if ((COMP_CWORD == 1)); then _kiln_words \"");
    put_commands(s);
    str_append(s, "help --version\"; return; fi\n    case ${COMP_WORDS[1]} in\n");
    for (size_t i = 0; i < n_commands; i++) bash_command(s, &commands[i]);
    str_append(s, "    help) _kiln_words \"");
    put_commands(s);
    str_append(s, "\" ;;\n    esac\n}\ncomplete -F _kiln kiln\n");
}

/* ---- zsh ---- */

static void zsh_option(str *s, const option *o, const char *name)
{
    str_printf(s, "            '%s%s[", o->many ? "*" : "", name);
    put_quoted(s, o->help, clause(o->help), "[]\\:", "'\\''");
    str_append(s, "]");
    if (o->value) {
        str_append(s, ":value:");
        switch (kind_of(o)) {
        case VALUE_WORDS: str_append(s, "("), put_words(s, o->value), str_append(s, ")"); break;
        case VALUE_FILE: str_append(s, "_files"); break;
        case VALUE_FOLDER: str_append(s, "_files -/"); break;
        case VALUE_SETTING: str_append(s, " _kiln_set"); break;
        case VALUE_TEXT: break;
        }
    }
    str_append(s, "' \\\n");
}

static void zsh_command(str *s, const command *c)
{
    static const char *const operand[] = {
        [OPERAND_WORKFLOW] = "'*:workflow:_files'", [OPERAND_FILE] = "'*:file:_files'"};
    const manual *m = c->manual;
    str_printf(s, "    %s)\n", c->name);
    if (has_settings(m)) str_append(s, "        local valued='"), put_valued(s, m), str_append(s, "'\n");
    str_append(s, "        _arguments \\\n");
    for (size_t i = 0; i < m->n_options; i++) {
        char letter[] = {'-', m->options[i].letter, 0};
        zsh_option(s, &m->options[i], m->options[i].name);
        if (letter[1]) zsh_option(s, &m->options[i], letter);
    }
    str_append(s, "            '--help[show what it takes]' \\\n            ");
    if (m->operand == OPERAND_WORD)
        str_printf(s, "'*:what:(%s)'", m->words);
    else if (m->operand == OPERAND_NAME)
        str_printf(s, "'*:name: _kiln_names %s'", c->name);
    else if (m->operand != OPERAND_NONE)
        str_append(s, operand[m->operand]);
    str_append(s, " ;;\n");
}

static void zsh(str *s)
{
    str_append(s, "#compdef kiln\n# zsh completion for kiln, made by `kiln completions zsh`\n"
                  "_kiln_names() {\n"
                  "    local -a names\n"
                  "    names=(\"${(@f)$(kiln completions names $1 2>/dev/null)}\")\n"
                  "    compadd -a names\n"
                  "}\n"
                  "# --set NAME=VALUE: the names that the workflow of this line has, and the values of one.\n"
                  "_kiln_set() {\n"
                  "    local -a lines names\n"
                  "    local w file name i\n"
                  "    for ((i = 2; i <= $#words; i++)); do\n"
                  "        w=${(Q)words[i]}\n"
                  "        [[ $i == $CURRENT || $w == -?* || $valued == *\" ${words[i-1]} \"* ]] && continue\n"
                  "        file=${w/#\\~\\//$HOME/}; break\n"
                  "    done\n"
                  "    [[ -n $file ]] || return 1\n"
                  "    if compset -P 1 '*='; then\n"
                  "        name=${(Q)${IPREFIX%=}}\n"
                  "        lines=(${(f)\"$(kiln completions settings $file ${name##*=} 2>/dev/null)\"})\n"
                  "        if (( $#lines )); then compadd -a lines; else _files; fi\n"
                  "    else\n"
                  "        lines=(${(f)\"$(kiln completions settings $file 2>/dev/null)\"})\n"
                  "        names=(${lines%%$'\\t'*})\n"
                  "        lines=(${lines//$'\\t'/  })\n"
                  "        compadd -l -d lines -S = -q -a names\n"
                  "    fi\n"
                  "}\n"
                  "_kiln() {\n"
                  "    if (( CURRENT == 2 )); then\n"
                  "        local -a commands\n"
                  "        commands=(\n");
    for (size_t i = 0; i < n_commands; i++) {
        str_printf(s, "            '%s:", commands[i].name);
        put_quoted(s, commands[i].summary, strlen(commands[i].summary), "\\:", "'\\''");
        str_append(s, "'\n");
    }
    str_append(s, "            'help:show the commands, or one'\n        )\n        _describe command commands\n"
                  "        return\n    fi\n"
                  "    shift words\n    (( CURRENT-- ))\n    case $words[1] in\n");
    for (size_t i = 0; i < n_commands; i++) zsh_command(s, &commands[i]);
    str_append(s, "    help) _arguments '*:name: _kiln_names manual' ;;\n    esac\n}\n_kiln \"$@\"\n");
}

/* ---- fish ---- */

static void fish_line(str *s, const char *of, const manual *m, const option *o)
{
    str_printf(s, "complete -c kiln -n '__kiln_is %s' -l %s", of, o->name + 2);
    if (o->letter) str_printf(s, " -s %c", o->letter);
    if (o->value) {
        switch (kind_of(o)) {
        case VALUE_WORDS: str_append(s, " -x -a '"), put_words(s, o->value), str_append(s, "'"); break;
        case VALUE_FILE: str_append(s, " -r -F"); break;
        case VALUE_FOLDER: str_append(s, " -x -a '(__fish_complete_directories)'"); break;
        case VALUE_SETTING: str_append(s, " -x -a '(__kiln_set"), put_valued(s, m), str_append(s, ")'"); break;
        case VALUE_TEXT: str_append(s, " -x"); break;
        }
    }
    str_append(s, " -d '");
    put_quoted(s, o->help, clause(o->help), "\\", "\\'");
    str_append(s, "'\n");
}

static void fish_command(str *s, const command *c)
{
    const manual *m = c->manual;
    str_printf(s, "complete -c kiln -n __fish_use_subcommand -a %s -d '", c->name);
    put_quoted(s, c->summary, strlen(c->summary), "\\", "\\'");
    str_append(s, "'\n");
    for (size_t i = 0; i < m->n_options; i++) fish_line(s, c->name, m, &m->options[i]);
    if (m->operand == OPERAND_WORKFLOW || m->operand == OPERAND_FILE)
        str_printf(s, "complete -c kiln -n '__kiln_is %s' -F\n", c->name);
    if (m->operand == OPERAND_WORD) str_printf(s, "complete -c kiln -n '__kiln_is %s' -a '%s'\n", c->name, m->words);
    if (m->operand == OPERAND_NAME)
        str_printf(s, "complete -c kiln -n '__kiln_is %s' -a '(kiln completions names %s 2>/dev/null)'\n", c->name,
                   c->name);
}

static void fish(str *s)
{
    str_append(s, "# fish completion for kiln, made by `kiln completions fish`\n"
                  "function __kiln_is\n"
                  "    set -l typed (commandline -opc)\n"
                  "    test (count $typed) -gt 1; and test $typed[2] = $argv[1]\n"
                  "end\n"
                  "# --set NAME=VALUE: the names that the workflow of this line has, and the values of one.\n"
                  "function __kiln_set\n"
                  "    set -l typed (commandline -opc)\n"
                  "    set -l current (commandline -ct)\n"
                  "    set -l file\n"
                  "    set -l i 3\n"
                  "    while test $i -le (count $typed)\n"
                  "        if not string match -q -- '-?*' $typed[$i]\n"
                  "            and not contains -- $typed[(math $i - 1)] $argv\n"
                  "            set file $typed[$i]\n"
                  "            break\n"
                  "        end\n"
                  "        set i (math $i + 1)\n"
                  "    end\n"
                  "    test -n \"$file\"; or return\n"
                  "    if not string match -q -- '*=*' $current\n"
                  "        kiln completions settings $file 2>/dev/null | string replace \\t =\\t\n"
                  "        return\n"
                  "    end\n"
                  "    set -l parts (string split -m 1 = -- $current)\n"
                  "    set -l values (kiln completions settings $file $parts[1] 2>/dev/null)\n"
                  "    test (count $values) -gt 0; or set values (__fish_complete_path $parts[2])\n"
                  "    for value in $values\n"
                  "        echo $parts[1]=$value\n"
                  "    end\n"
                  "end\n"
                  "complete -c kiln -f\n");
    for (size_t i = 0; i < n_commands; i++) fish_command(s, &commands[i]);
    str_append(s, "complete -c kiln -n __fish_use_subcommand -a help -d 'show the commands, or one'\n"
                  "complete -c kiln -n '__kiln_is help' -a '(kiln completions names manual 2>/dev/null)'\n");
}

/* ---- names ---- */

static void put_name(str *s, const char *name) { str_printf(s, "%s\n", name); }

static int names(const arguments *a, const char *of)
{
    str s = {0};
    int status = EXIT_DONE;
    size_t i;
    catalog *c = NULL;
    if (strcmp(of, "manual") == 0) {
        for (i = 0; i < n_commands; i++) put_name(&s, commands[i].name);
    } else if (strcmp(of, "ops") == 0) {
        for (i = 0; op_doc_at(i); i++) put_name(&s, op_doc_at(i)->name);
    } else if (strcmp(of, "nodes") == 0 || strcmp(of, "types") == 0 || strcmp(of, "samplers") == 0) {
        if (!(c = open_catalog("completions", a, &status))) return status;
        for (i = 0; of[0] == 'n' && i < catalog_nodes(c); i++) put_name(&s, catalog_node(c, i)->node->type);
        for (i = 0; of[0] == 't' && i < types_api.type_count(); i++) put_name(&s, types_api.type_at(i)->name);
        for (i = 0; of[0] == 's' && i < sampler_api.sampler_count(); i++) put_name(&s, sampler_api.sampler_at(i)->name);
    } else {
        print_text(stderr, "kiln completions: '%s' takes no names; nodes, types, ops, samplers and manual do\n", of);
        return EXIT_BAD_INPUT;
    }
    print_str(stdout, &s);
    catalog_close(c);
    str_free(&s);
    return EXIT_DONE;
}

int cmd_completions(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*put)(str *);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    arguments a;
    str s = {0};
    if (!arguments_read(&a, &manual_completions, argc, argv)) return EXIT_BAD_INPUT;
    if (a.help) return manual_print(&manual_completions), EXIT_DONE;
    if (a.n_operand == 2 && strcmp(a.operand[0], "names") == 0) return names(&a, a.operand[1]);
    if ((a.n_operand == 2 || a.n_operand == 3) && strcmp(a.operand[0], "settings") == 0)
        return complete_settings(&a, a.operand[1], a.n_operand == 3 ? a.operand[2] : NULL);
    for (size_t i = 0; a.n_operand == 1 && i < sizeof shells / sizeof shells[0]; i++) {
        if (strcmp(a.operand[0], shells[i].name) != 0) continue;
        shells[i].put(&s);
        print_str(stdout, &s);
        str_free(&s);
        return EXIT_DONE;
    }
    print_text(stderr, "kiln completions: for which shell? bash, zsh or fish\nusage: %s\n", manual_completions.usage);
    return EXIT_BAD_INPUT;
}
