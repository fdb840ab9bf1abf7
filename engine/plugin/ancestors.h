/* ancestors.h - whether somebody else could replace a plugin's folder by way of the folders above it. */
#ifndef KILN_PLUGIN_ANCESTORS_H
#define KILN_PLUGIN_ANCESTORS_H

/* Write permission for a folder allows renaming its entries. So every folder above `folder` (an absolute path without
 * links) has to belong to root or the user, and be writable by nobody else unless it is sticky, as /tmp is. NULL when
 * that holds; otherwise a text in `why` that names the folder and what is wrong. */
const char *ancestors_fault(const char *folder, char why[600]);

#endif
