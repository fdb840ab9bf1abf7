/* cmd_samplers.c - `kiln samplers [NAME]`: the registered samplers, kiln's and other plugins', as their rows declare
 * them. */
#include "base/json_members.h"
#include "base/names.h"
#include "base/print.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/open_catalog.h"
#include "cli/param_help.h"
#include "param/param_rows.h"
#include "param/param_text.h"
#include "plugin/abilities.h"
#include "plugin/catalog.h"

#include <stdio.h>
#include <string.h>

static const option options[] = {
    PLUGINS_OPTION,
    {"--json", 0, NULL, "print JSON", 0},
};
const manual manual_samplers = {
    .usage = "kiln samplers [NAME ...] [--plugins LIST] [--json]",
    .about = "Lists the samplers, or describes those named.\n\n"
             "order        the error falls as (1/steps)^order, without noise and on\n"
             "             smooth schedules; -: the method solves no equation\n"
             "evaluations  of the network per step; the first and last may need fewer\n"
             "noise        -: none; white: drawn anew each step; path, path (gpu):\n"
             "             increments of one Brownian path; an option's name: none\n"
             "             unless that option is set\n\n"
             "Options are given by the Sampler... nodes, or by KSamplerSelect where there is no such node.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "  kiln samplers\n  kiln samplers dpmpp_2m_sde dpm_adaptive\n  kiln samplers --json > samplers.json\n",
    .operand = OPERAND_NAME,
};

/* Where its noise comes from, in the words of the help text above. */
static const char *noise_of(const kiln_sampler *s)
{
    static const char *const by_option[] = {"s_churn", "eta"};
    if (s->flags & KILN_SAMPLER_BROWNIAN) return s->flags & KILN_SAMPLER_BROWNIAN_CUDA ? "path (gpu)" : "path";
    if (s->flags & KILN_SAMPLER_STOCHASTIC) return "white";
    kiln_param_table rows = sampler_options(s);
    for (size_t i = 0; i < sizeof by_option / sizeof by_option[0]; i++)
        if (param_row_named(&rows, by_option[i])) return by_option[i];
    return "-";
}

static void order_text(const kiln_sampler *s, char out[16])
{
    if (s->order)
        snprintf(out, 16, "%u", s->order);
    else
        strcpy(out, "-");
}

/* "eta=1 s_noise=1" */
static void options_text(const kiln_sampler *s, str *out)
{
    kiln_param_table rows = sampler_options(s);
    for (uint32_t i = 0; i < rows.n_param; i++) {
        str_printf(out, "%s%s=", i ? " " : "", param_row(&rows, i)->name);
        param_default_text(param_row(&rows, i), out);
    }
}

/* ---- text ---- */

static void print_list(void)
{
    print_text(stdout, "%-30s %5s %11s  %-10s  %s\n", "sampler", "order", "evaluations", "noise",
               "options and their defaults; source");
    for (size_t i = 0; i < sampler_api.sampler_count(); i++) {
        const kiln_sampler *s = sampler_api.sampler_at(i);
        char order[16];
        str opts = {0};
        order_text(s, order);
        options_text(s, &opts);
        print_text(stdout, "%-30s %5s %11g  %-10s  %s%s%s\n", s->name, order, s->evaluations, noise_of(s),
                   str_text(&opts), opts.len ? "; " : "", s->source ? s->source : "");
        str_free(&opts);
    }
    if (!sampler_api.sampler_count())
        print_text(stdout, "there are no samplers, because no plugin that brings any was loaded; see `kiln plugins`\n");
}

static void print_sampler(const kiln_sampler *s)
{
    char order[16];
    order_text(s, order);
    print_text(stdout, "%s\n%s\n%s\n\n", s->name, s->doc ? s->doc : "", s->source ? s->source : "");
    print_text(stdout, "  %-20s %s\n  %-20s %g\n  %-20s %s\n", "order", order, "evaluations a step", s->evaluations,
               "noise", noise_of(s));
    if (s->flags & KILN_SAMPLER_EXTRA_STEP)
        print_text(stdout, "  %-20s made for one step more, the last but one dropped\n", "levels");
    if (s->flags & KILN_SAMPLER_UNCONDITIONAL)
        print_text(stdout, "  %-20s is evaluated at cfg 1 as well\n", "negative");
    kiln_param_table rows = sampler_options(s);
    if (rows.n_param) print_text(stdout, "\noptions:\n");
    for (uint32_t i = 0; i < rows.n_param; i++) param_print(param_row(&rows, i));
}

/* ---- JSON ---- */

static void json_sampler(str *s, const kiln_sampler *k)
{
    member_next(s);
    str_append(s, s->len > 1 ? "\n{" : "{");
    member_field(s, "name", k->name);
    member_field(s, "doc", k->doc);
    member_field(s, "source", k->source);
    member_key(s, "order");
    if (k->order)
        str_printf(s, "%u", k->order);
    else
        str_append(s, "null");
    member_number(s, "evaluations", k->evaluations);
    member_bool(s, "stochastic", k->flags & KILN_SAMPLER_STOCHASTIC);
    member_field(s, "noise", noise_of(k));
    member_bool(s, "extra_step", k->flags & KILN_SAMPLER_EXTRA_STEP);
    member_bool(s, "unconditional", k->flags & KILN_SAMPLER_UNCONDITIONAL);
    member_key(s, "options");
    str_append(s, "[");
    kiln_param_table rows = sampler_options(k);
    for (uint32_t i = 0; i < rows.n_param; i++) param_json(param_row(&rows, i), &registry_names, s);
    str_append(s, "]}");
}

/* ---- the command ---- */

static const char *name_at(void *arg, size_t i) { return (void)arg, sampler_api.sampler_at(i)->name; }

static int print_all(const arguments *a)
{
    if (!argument(a, "--json")) return print_list(), EXIT_DONE;
    str s = {0};
    str_append(&s, "[");
    for (size_t i = 0; i < sampler_api.sampler_count(); i++) json_sampler(&s, sampler_api.sampler_at(i));
    str_append(&s, "]\n");
    print_str(stdout, &s);
    str_free(&s);
    return EXIT_DONE;
}

static int print_chosen(const arguments *a)
{
    str s = {0};
    for (size_t i = 0; i < a->n_operand; i++)
        if (!sampler_api.sampler(a->operand[i])) {
            const char *near = nearest_name(a->operand[i], name_at, sampler_api.sampler_count(), NULL);
            print_text(stderr, "kiln samplers: there is no sampler '%s'%s%s%s\n", a->operand[i],
                       near ? "; did you mean '" : "; see `kiln samplers`", near ? near : "", near ? "'?" : "");
            return EXIT_BAD_INPUT;
        }
    str_append(&s, "[");
    for (size_t i = 0; i < a->n_operand; i++) {
        const kiln_sampler *k = sampler_api.sampler(a->operand[i]);
        json_sampler(&s, k);
        if (argument(a, "--json")) continue;
        if (i) print_text(stdout, "\n\n");
        print_sampler(k);
    }
    str_append(&s, "]\n");
    if (argument(a, "--json")) print_str(stdout, &s);
    str_free(&s);
    return EXIT_DONE;
}

int cmd_samplers(int argc, char **argv)
{
    arguments a;
    int status;
    if (!arguments_read(&a, &manual_samplers, argc, argv)) return EXIT_BAD_INPUT;
    if (a.help) return manual_print(&manual_samplers), EXIT_DONE;
    catalog *c = open_catalog("samplers", &a, &status);
    if (!c) return status;
    status = a.n_operand ? print_chosen(&a) : print_all(&a);
    catalog_close(c);
    return status;
}
