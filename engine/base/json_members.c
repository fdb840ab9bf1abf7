/* json_members.c - see json_members.h. */
#include "base/json_members.h"

#include <string.h>

void member_key(str *s, const char *name)
{
    char last = s->len ? s->data[s->len - 1] : '{';
    str_printf(s, "%s\"%s\": ", last == '{' || last == '[' ? "" : ", ", name);
}

void member_field(str *s, const char *name, const char *text)
{
    member_key(s, name);
    if (text)
        str_json(s, text, strlen(text), 0);
    else
        str_append(s, "null");
}

void member_bool(str *s, const char *name, uint32_t value)
{
    member_key(s, name);
    str_append(s, value ? "true" : "false");
}

void member_number(str *s, const char *name, double value)
{
    member_key(s, name);
    str_double(s, value);
}

void member_next(str *s)
{
    if (s->len && s->data[s->len - 1] == '}') str_append(s, ", ");
}
