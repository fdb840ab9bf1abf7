/* manual.c - a command's help and man page, made of its table. */
#include "base/print.h"
#include "base/str.h"
#include "cli/command.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH = 79, HELP_COLUMN = 26 };

void text_fill(FILE *to, const char *text, int at, int indent)
{
    int first = 1;
    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        int n = (int)strcspn(text, " ");
        if (!first && at + 1 + n > WIDTH) print_text(to, "\n%*s", indent, ""), at = indent, first = 1;
        print_text(to, "%s%.*s", first ? "" : " ", n, text);
        at += n + !first, first = 0, text += n;
    }
    print_text(to, "\n");
}

/* One line of `about` at a time; plain ones of a paragraph together. Returns where the next begins. */
static const char *take_paragraph(const char *text, str *out, int *is_plain)
{
    *is_plain = 1;
    while (*text) {
        size_t n = strcspn(text, "\n");
        int plain = 0;
        for (size_t i = 0; i + 1 < n && !plain; i++) plain = text[i] == ' ' && text[i + 1] == ' ';
        plain = !plain && n > 0;
        if (out->len && !plain) return text;
        str_printf(out, "%s%.*s", out->len ? " " : "", (int)n, text);
        text += n + (text[n] == '\n');
        *is_plain = plain;
        if (!plain) return text;
    }
    return text;
}

static void print_about(const char *about)
{
    for (int is_plain; *about;) {
        str s = {0};
        about = take_paragraph(about, &s, &is_plain);
        if (is_plain)
            text_fill(stdout, str_text(&s), 0, 0);
        else
            print_text(stdout, "%s\n", str_text(&s));
        str_free(&s);
    }
}

static void put_option(str *s, const option *o)
{
    if (o->letter) str_printf(s, "-%c, ", o->letter);
    str_printf(s, "%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
}

void manual_print(const manual *m)
{
    print_text(stdout, "usage: %s\n\n", m->usage);
    print_about(m->about);
    if (m->n_options) print_text(stdout, "\noptions:\n");
    for (size_t i = 0; i < m->n_options; i++) {
        str left = {0};
        put_option(&left, &m->options[i]);
        print_text(stdout, "  %s", str_text(&left));
        int at = (int)left.len + 2;
        if (at < HELP_COLUMN)
            print_text(stdout, "%*s", HELP_COLUMN - at, "");
        else
            print_text(stdout, "\n%*s", HELP_COLUMN, "");
        text_fill(stdout, m->options[i].help, HELP_COLUMN, HELP_COLUMN);
        str_free(&left);
    }
    if (m->n_options) {
        print_text(stdout, "\n");
        text_fill(stdout,
                  "Options can also stand in ~/.config/kiln/config.yaml, or the file that KILN_CONFIG names, by their "
                  "long names: docs/shell.md.",
                  0, 0);
    }
    if (m->examples) print_raw(stdout, "\nexamples:\n"), print_raw(stdout, m->examples);
}

/* ---- man pages ---- */

/* Text in troff: hyphens that can be copied, and no line that is a request. */
static void put_troff(str *s, const char *text)
{
    int begins = 1;
    for (; *text; text++) {
        if (begins && (*text == '.' || *text == '\'')) str_append(s, "\\&");
        if (*text == '\\')
            str_append(s, "\\e");
        else if (*text == '-')
            str_append(s, "\\-");
        else
            str_char(s, *text);
        begins = *text == '\n';
    }
}

static void put_section(str *s, const char *name) { str_printf(s, ".SH %s\n", name); }

static void put_line(str *s, const char *before, const char *text)
{
    str_append(s, before);
    put_troff(s, text);
    str_char(s, '\n');
}

static void put_literal(str *s, const char *lines)
{
    str_append(s, ".nf\n");
    put_troff(s, lines);
    if (s->len && s->data[s->len - 1] != '\n') str_char(s, '\n');
    str_append(s, ".fi\n");
}

static void put_about(str *s, const char *about)
{
    for (int is_plain; *about;) {
        str text = {0};
        about = take_paragraph(about, &text, &is_plain);
        if (!is_plain && !text.len)
            str_append(s, ".PP\n");
        else if (is_plain)
            put_line(s, "", str_text(&text));
        else
            put_literal(s, str_text(&text));
        str_free(&text);
    }
}

static void put_options(str *s, const manual *m)
{
    if (m->n_options) put_section(s, "OPTIONS");
    for (size_t i = 0; i < m->n_options; i++) {
        const option *o = &m->options[i];
        str left = {0};
        put_option(&left, o);
        put_line(s, ".TP\n.B ", str_text(&left));
        put_line(s, "", o->help);
        str_free(&left);
    }
}

static const char *const environment[][2] = {
    {"KILN_CONFIG", "the configuration file; off: none (default: $XDG_CONFIG_HOME/kiln/config.yaml, else "
                    "~/.config/kiln/config.yaml)"},
    {"KILN_MODELS", "folders to look for models in, ':' between"},
    {"KILN_ALIASES", "names for model files: NAME=FILE, ':' between"},
    {"KILN_INPUT", "folders to look for input pictures in, ':' between"},
    {"KILN_PLUGIN_PATH", "folders or files to look for plugins in, ':' between"},
    {"KILN_CACHE", "the folder of kept results; off: none"},
    {"KILN_MEMORY", "how much of the device's memory to use, as 1200M or 4G"},
    {"NO_COLOR", "no colours on a terminal"},
};

static void put_kiln(str *s)
{
    put_section(s, "NAME");
    put_line(s, "", "kiln - run diffusion workflows from files, without a server");
    put_section(s, "SYNOPSIS");
    put_line(s, ".B ", "kiln COMMAND [options]");
    put_section(s, "DESCRIPTION");
    put_line(s, "",
             "kiln loads node plugins, connects their nodes as a YAML workflow (or one of ComfyUI's) describes, "
             "plans the memory of every tensor before anything runs, and writes pictures.");
    put_section(s, "COMMANDS");
    for (size_t i = 0; i < n_commands; i++) {
        put_line(s, ".TP\n.B ", commands[i].name);
        put_line(s, "", commands[i].summary);
    }
    put_section(s, "ENVIRONMENT");
    for (size_t i = 0; i < sizeof environment / sizeof environment[0]; i++) {
        put_line(s, ".TP\n.B ", environment[i][0]);
        put_line(s, "", environment[i][1]);
    }
    put_section(s, "FILES");
    put_line(s, ".TP\n.B ", "~/.config/kiln/config.yaml");
    put_line(s, "", "long options' names with values, and aliases: names for model files");
    put_line(s, ".TP\n.B ", "~/.cache/kiln");
    put_line(s, "", "results kept between runs");
    put_section(s, "EXIT STATUS");
    put_line(s, "", exit_statuses + strlen("Exit status: "));
    put_section(s, "SEE ALSO");
    for (size_t i = 0; i < n_commands; i++)
        str_printf(s, ".BR kiln\\-%s (1)%s\n", commands[i].name, i + 1 < n_commands ? "," : "");
}

static void put_command(str *s, const command *c)
{
    str title = {0};
    str_printf(&title, "kiln-%s - %s", c->name, c->summary);
    put_section(s, "NAME");
    put_line(s, "", str_text(&title));
    put_section(s, "SYNOPSIS");
    put_line(s, ".B ", c->manual->usage);
    put_section(s, "DESCRIPTION");
    put_about(s, c->manual->about);
    put_options(s, c->manual);
    if (c->manual->examples) put_section(s, "EXAMPLES"), put_literal(s, c->manual->examples);
    put_section(s, "SEE ALSO");
    str_append(s, ".BR kiln (1)\n");
    str_free(&title);
}

void manual_print_page(const command *c)
{
    str s = {0}, name = {0};
    str_printf(&name, "kiln%s%s", c ? "-" : "", c ? c->name : "");
    for (char *p = name.data; p && *p; p++)
        if (*p >= 'a' && *p <= 'z') *p = (char)(*p - 'a' + 'A');
    put_line(&s, ".TH ", str_text(&name));
    if (s.len) s.len--; /* the rest of its line */
    str_append(&s, " 1 \"\" \"kiln " KILN_VERSION "\" \"kiln\"\n");
    if (c)
        put_command(&s, c);
    else
        put_kiln(&s);
    print_str(stdout, &s);
    str_free(&s);
    str_free(&name);
}
