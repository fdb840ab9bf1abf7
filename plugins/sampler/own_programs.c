/* own_programs.c - see own_programs.h. */
#include "own_programs.h"

#include <stdlib.h>
#include <string.h>

struct own_program {
    own_program *next;
    kiln_program *program;
    uint32_t precision, precisions;
    char key[]; /* with its end */
};

kiln_program *own_program_of(own_programs *own, const kiln_call *c, const char *key,
                             const kiln_program_options *options, int *fresh)
{
    const kiln_ops *ops = c->host->ability(KILN_OPS_ABILITY);
    size_t n = strlen(key) + 1;
    own_program *p = own->first;
    while (p &&
           !(p->precision == options->precision && p->precisions == options->precisions && strcmp(p->key, key) == 0))
        p = p->next;
    *fresh = !p;
    if (p) return p->program;
    if (!(p = malloc(sizeof *p + n))) return NULL;
    *p = (own_program){.next = own->first, .precision = options->precision, .precisions = options->precisions};
    memcpy(p->key, key, n);
    if (!(p->program = ops->program_new(c->ctx, options))) {
        free(p);
        return NULL;
    }
    own->first = p;
    return p->program;
}

void own_programs_free(own_programs *own, const kiln_ops *ops)
{
    for (own_program *p = own->first, *next; p; p = next) {
        next = p->next;
        ops->program_free(p->program);
        free(p);
    }
    own->first = NULL;
}
