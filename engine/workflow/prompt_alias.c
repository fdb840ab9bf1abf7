/* prompt_alias.c - see prompt_alias.h. Where a name begins and ends is what the prompts of plugins/clip say: it follows
 * "embedding:" at the beginning of a word, and ends at a blank, a parenthesis, a weight or a comma.
 */
#include "workflow/prompt_alias.h"

#include "base/str.h"
#include "workflow/model_alias.h"

#include <string.h>

static const char before_name[] = "embedding:";

static int begins_word(const char *text, const char *at) { return at == text || strchr(" \t\n\v\f\r()", at[-1]); }

static size_t name_length(const char *name)
{
    size_t n = strcspn(name, " \t\n\v\f\r<[():");
    while (n > 0 && name[n - 1] == ',') n--;
    return n;
}

const char *prompt_without_aliases(arena *a, const char *text, error *e)
{
    str s = {0};
    const char *done = text;
    int changed = 0;
    for (const char *at = text; !e->message[0] && (at = strstr(at, before_name));) {
        const char *name = at + sizeof before_name - 1;
        int is_name = begins_word(text, at);
        at = name += strspn(name, " \t\n\v\f\r");
        const char *alias = is_name ? arena_strndup(a, name, name_length(name)) : NULL,
                   *file = alias && *alias ? model_alias(a, alias, e) : NULL;
        if (!file) continue;
        str_append_n(&s, done, (size_t)(name - done));
        str_append(&s, file);
        done = at = name + strlen(alias);
        changed = 1;
    }
    str_append(&s, done);
    const char *made = !changed ? text : s.failed ? NULL : arena_strdup(a, str_text(&s));
    str_free(&s);
    return made;
}
