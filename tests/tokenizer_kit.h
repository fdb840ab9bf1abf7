/* tokenizer_kit.h - "kiln.tokenizer/1" for tests of other plugins: the tokenizer plugin as it ships, opened once. */
#ifndef KILN_TESTS_TOKENIZER_KIT_H
#define KILN_TESTS_TOKENIZER_KIT_H

#include "harness.h"
#include "kiln/tokenizer.h"
#include "plugin/abilities.h"
#include "rig.h"

#include <dlfcn.h>

static inline const kiln_tokenizer_api *tokenizers(void)
{
    const kiln_tokenizer_api *api = rig_host()->ability(KILN_TOKENIZER_ABILITY);
    char path[600];
    if (api) return api;
    snprintf(path, sizeof path, "%s/plugins/kiln-tokenizer.so", test_build());
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const kiln_plugin *p = so ? dlsym(so, "kiln_plugin_v1") : NULL;
    if (!CHECK_MSG(p != NULL, "%s", dlerror())) return NULL;
    registry_owner_set("tokenizer", NULL);
    CHECK_EQ(p->open(rig_host()), KILN_OK);
    registry_owner_set(NULL, NULL);
    return rig_host()->ability(KILN_TOKENIZER_ABILITY);
}

#endif
