/* option_kit.h - values to try for a parameter, and settings of the others to try them under: does it act at all? */
#ifndef KILN_TESTS_OPTION_KIT_H
#define KILN_TESTS_OPTION_KIT_H

#include "sampling_kit.h"

/* The k-th value to try for an option, as NAME=VALUE; 0 when there are no more. */
static inline int other_value(const kiln_param *p, int k, char text[80])
{
    const double number[] = {p->def + 0.37, p->def * 0.63, 0.2, 1.9}, whole[] = {p->def - 1, p->def + 1, p->min};
    int choices = 0;
    while (p->type == KILN_P_ENUM && kiln_choice_at(p, choices).name) choices++;
    switch (p->type) {
    case KILN_P_BOOL: return k < 1 ? snprintf(text, 80, "%s=%s", p->name, p->def != 0 ? "false" : "true") : 0;
    case KILN_P_ENUM: return k < choices ? snprintf(text, 80, "%s=%s", p->name, kiln_choice_at(p, k).name) : 0;
    case KILN_P_INT: return k < 3 ? snprintf(text, 80, "%s=%d", p->name, (int)fmin(fmax(whole[k], p->min), p->max)) : 0;
    case KILN_P_FLOAT:
        return k < 4 ? snprintf(text, 80, "%s=%.17g", p->name, fmin(fmax(number[k], p->min), p->max)) : 0;
    case KILN_P_SEED: return k < 1 ? snprintf(text, 80, "%s=12345", p->name) : 0;
    case KILN_P_STRING: return k < 1 ? snprintf(text, 80, "%s=3, 2, 0", p->name) : 0;
    case KILN_P_NAME:
        return registry_name(p->from, (size_t)k)
                   ? snprintf(text, 80, "%s=%s", p->name, registry_name(p->from, (size_t)k))
                   : 0;
    default: return 0;
    }
}

/* Settings under which an option is tried as well, for those that act only beside another: all that is 0 made something
 * (churn, the parts of a step control), whole numbers and a change of size changed, then each choice of each enum. 0
 * when there are no more. */
static inline int context_at(const kiln_param *param, size_t n, uint32_t stride, size_t but, int which,
                             const char *between, char *text, size_t capacity)
{
    int seen = 0;
    char one[80];
    text[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        const kiln_param *p = (const void *)((const char *)param + i * stride);
        if (i == but) continue;
        int turned =
            (p->type == KILN_P_FLOAT && (p->def == 0 || strcmp(p->name, "scale_ratio") == 0)) || p->type == KILN_P_INT;
        if (which == 1 && turned && other_value(p, 0, one))
            snprintf(text + strlen(text), capacity - strlen(text), "%s%s", one, between);
        for (int k = 0; which > 1 && p->type == KILN_P_ENUM && other_value(p, k, one); k++)
            if (++seen == which - 1) return snprintf(text, capacity, "%s%s", one, between);
    }
    return which < 2;
}

#endif
