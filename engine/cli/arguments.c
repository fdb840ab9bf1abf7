/* arguments.c - parses command lines by the options a command declares; see command.h. */
#include "base/names.h"
#include "base/print.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/config_file.h"

#include <stdio.h>
#include <string.h>

static const option *find(const manual *m, const char *name, size_t n)
{
    for (size_t i = 0; i < m->n_options; i++)
        if (strlen(m->options[i].name) == n && strncmp(m->options[i].name, name, n) == 0) return &m->options[i];
    return NULL;
}

static const option *find_letter(const manual *m, char letter)
{
    for (size_t i = 0; i < m->n_options; i++)
        if (m->options[i].letter == letter) return &m->options[i];
    return NULL;
}

static const char *option_name(void *arg, size_t i) { return ((const manual *)arg)->options[i].name; }

/* What people give as options, here or in other programs, and is a value of the workflow. */
static const struct {
    const char *option, *set; /* set: another name, or how it is said */
} settings[] = {
    {"seed", NULL},
    {"prompt", NULL},
    {"negative", NULL},
    {"steps", NULL},
    {"cfg", NULL},
    {"width", NULL},
    {"height", NULL},
    {"sampler", NULL},
    {"sampler_name", NULL},
    {"scheduler", NULL},
    {"denoise", NULL},
    {"batch_size", NULL},
    {"ckpt_name", NULL},
    {"strength", NULL},
    {"batch", "batch_size"},
    {"batch-size", "batch_size"},
    {"negative-prompt", "negative"},
    {"negative_prompt", "negative"},
    {"cfg-scale", "cfg"},
    {"ckpt", "ckpt_name"},
    {"size", "width=VALUE --set height"},
};

/* `--seed 3` where there is a --set. 1: said. */
static int say_setting(const char *text)
{
    const char *name = text + 2, *value = strchr(name, '=');
    size_t n = strncmp(text, "--", 2) != 0 ? 0 : value ? (size_t)(value - name) : strlen(name);
    for (size_t i = 0; n && i < sizeof settings / sizeof settings[0]; i++) {
        const char *set = settings[i].set ? settings[i].set : settings[i].option;
        if (strlen(settings[i].option) != n || strncmp(settings[i].option, name, n) != 0) continue;
        print_text(stderr, "kiln: there is no option '%.*s'; a value of the workflow is set so: --set %s=%s\n",
                   (int)n + 2, text, set, value && !strchr(set, '=') ? value + 1 : "VALUE");
        return 1;
    }
    return 0;
}

static int unknown(const manual *m, const char *text)
{
    if (find(m, "--set", 5) && say_setting(text)) return 0;
    const char *near = nearest_name(text, option_name, m->n_options, (void *)(size_t)m);
    print_text(stderr, "kiln: unknown option '%s'%s%s%s\n", text, near ? "; did you mean '" : "; see --help",
               near ? near : "", near ? "'?" : "");
    return 0;
}

void argument_drop(arguments *a, const char *name)
{
    size_t kept = 0;
    for (size_t i = 0; i < a->n_given; i++)
        if (!a->given[i].by_config || strcmp(a->given[i].option->name, name) != 0) a->given[kept++] = a->given[i];
    a->n_given = kept;
}

int argument_typed(const arguments *a, const char *name)
{
    for (size_t i = 0; i < a->n_given; i++)
        if (!a->given[i].by_config && strcmp(a->given[i].option->name, name) == 0) return 1;
    return 0;
}

static int add(arguments *a, const option *o, const char *value)
{
    if (!o->many) argument_drop(a, o->name);
    if (!o->many && argument(a, o->name)) {
        print_text(stderr, "kiln: option '%s' is given twice\n", o->name);
        return 0;
    }
    if (a->n_given == sizeof a->given / sizeof a->given[0]) {
        print_text(stderr, "kiln: too many options\n");
        return 0;
    }
    a->given[a->n_given++] = (given){.option = o, .value = value};
    return 1;
}

/* Reads the option at argv[*i], and its value after '=' or in the next argument. */
static int read_option(arguments *a, const manual *m, int argc, char **argv, int *i)
{
    const char *text = argv[*i], *equals = strchr(text, '=');
    int is_long = text[1] == '-';
    const option *o = is_long           ? find(m, text, equals ? (size_t)(equals - text) : strlen(text))
                                : text[2] == '\0' ? find_letter(m, text[1])
                                        : NULL;
    if (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0) return a->help = 1;
    if (!o) return unknown(m, text);
    if (!o->value) {
        if (equals) print_text(stderr, "kiln: option '%s' takes no value\n", o->name);
        return !equals && add(a, o, "");
    }
    const char *value = equals && is_long ? equals + 1 : *i + 1 < argc ? argv[++*i] : "";
    if (*value) return add(a, o, value);
    print_text(stderr, "kiln: option '%s' needs a value: %s %s\n", o->name, o->name, o->value);
    return 0;
}

int arguments_read(arguments *a, const manual *m, int argc, char **argv)
{
    *a = (arguments){0};
    int only_operands = 0;
    for (int i = 1; i < argc && !a->help; i++) a->help = strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0;
    if (!a->help && !config_take(a, m, argv[0])) return 0; /* help is there also when that file has a fault */
    a->help = 0;
    for (int i = 1; i < argc; i++) {
        if (!only_operands && strcmp(argv[i], "--") == 0) {
            only_operands = 1;
        } else if (!only_operands && argv[i][0] == '-' && argv[i][1] != '\0') {
            if (!read_option(a, m, argc, argv, &i)) return 0;
        } else if (a->n_operand == sizeof a->operand / sizeof a->operand[0]) {
            print_text(stderr, "kiln: too many arguments\n");
            return 0;
        } else {
            a->operand[a->n_operand++] = argv[i];
        }
    }
    return 1;
}

const char *argument(const arguments *a, const char *name)
{
    for (size_t i = a->n_given; i-- > 0;)
        if (strcmp(a->given[i].option->name, name) == 0) return a->given[i].value;
    return NULL;
}
