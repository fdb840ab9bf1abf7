/* trust.c - see trust.h. */
#include "base/trust.h"

#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

/* 1: `user` is the group's only member, by the group's list and by every user's primary group. */
static int is_private_group(gid_t group, uid_t user)
{
    struct passwd *owner = getpwuid(user);
    if (!owner || owner->pw_gid != group) return 0;
    char name[64];
    if (strlen(owner->pw_name) >= sizeof name) return 0;
    strcpy(name, owner->pw_name);
    const struct group *g = getgrgid(group);
    for (char **member = g ? g->gr_mem : NULL; member && *member; member++)
        if (strcmp(*member, name) != 0) return 0;
    int alone = g != NULL;
    setpwent();
    for (const struct passwd *p; alone && (p = getpwent());) alone = p->pw_gid != group || p->pw_uid == user;
    endpwent();
    return alone;
}

int others_may_write(const struct stat *s)
{
    return (s->st_mode & S_IWOTH) || (s->st_mode & S_IWGRP && !is_private_group(s->st_gid, s->st_uid));
}

const char *trust_fault(const struct stat *s)
{
    if (s->st_uid != 0 && s->st_uid != geteuid()) return "belongs to another user; plugins must belong to you or root";
    if (s->st_mode & S_IWOTH) return "can be written by anyone; take that away with: chmod o-w";
    if (others_may_write(s)) return "can be written by its group; take that away with: chmod g-w";
    return NULL;
}
