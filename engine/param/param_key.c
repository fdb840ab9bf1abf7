/* param_key.c - see param_key.h. */
#include "param/param_key.h"

void param_hash(hasher *h, const kiln_param *p, const void *params)
{
    param_value v = param_get(p, params);
    hash_text(h, p->name);
    hash_u64(h, p->type);
    switch (p->type) {
    case KILN_P_BOOL: hash_u64(h, (uint64_t)(int64_t)v.flag); break;
    case KILN_P_ENUM:
    case KILN_P_INT: hash_u64(h, (uint64_t)v.whole); break;
    case KILN_P_SEED: hash_u64(h, v.bits); break;
    case KILN_P_FLOAT: hash_double(h, v.number); break;
    case KILN_P_FILE: break;
    default: hash_text(h, v.text); break;
    }
}
