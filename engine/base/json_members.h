/* json_members.h - writing JSON objects member by member into a str. The comma before a member, and between the objects
 * of a list, is put where the text so far needs one.
 */
#ifndef KILN_BASE_JSON_MEMBERS_H
#define KILN_BASE_JSON_MEMBERS_H

#include "base/str.h"

void member_key(str *s, const char *name);                     /* the value comes next */
void member_field(str *s, const char *name, const char *text); /* NULL is null         */
void member_bool(str *s, const char *name, uint32_t value);
void member_number(str *s, const char *name, double value);
void member_next(str *s); /* between objects of a list */

#endif
