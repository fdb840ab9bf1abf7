/* param_text.h - rows and values as people read them and as JSON: what a parameter takes, its default, its value, and
 * the sentence that refuses one. Without memory the str is marked as failed.
 */
#ifndef KILN_PARAM_PARAM_TEXT_H
#define KILN_PARAM_PARAM_TEXT_H

#include "base/str.h"
#include "param/param.h"

/* As it would be written in a workflow, without quotes: the row it came from takes it for the same value again. */
void param_value_text(const param_value *v, str *out);
/* The same as JSON: texts in quotes and ASCII. */
void param_value_json(const param_value *v, str *out);

enum { PARAM_LISTED = 12 }; /* so many choices a message lists */
/* What a row takes: "a whole number from 1 to 10000", "one of enable, disable". `listed` choices at most, then "...";
 * 0: all of them. */
void param_describe(const kiln_param *p, const param_names *names, size_t listed, str *out);
/* The default as it would be written in a workflow: a text in quotes, a choice as its name. */
void param_default_text(const kiln_param *p, str *out);
/* The row as a JSON object with all that it declares; with the comma before it where one is needed. */
void param_json(const kiln_param *p, const param_names *names, str *out);

/* KILN_ERR_INVALID, and in e why the row does not take v: with the nearest choice or name if one is near, otherwise
 * with what it takes. */
kiln_status param_refuse(const kiln_param *p, const param_value *v, const param_names *names, error *e);
/* The i-th choice of an ENUM or name of a NAME's registry, NULL past the end. */
const char *param_name_at(const kiln_param *p, const param_names *names, size_t i);

#endif
