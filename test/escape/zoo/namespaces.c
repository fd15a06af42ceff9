// SPDX-License-Identifier: Apache-2.0
/* Ways to stay alive behind a namespace. */
#include "zoo.h"
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mount.h>
#include <unistd.h>

/* An ordinary user may have any namespace within a user namespace. */
static void new_namespace(int flag)
{
	if (unshare(flag) == 0)
		return;
	if (errno != EPERM || unshare(flag | CLONE_NEWUSER) != 0)
		die("unshare");
}

/* In a user namespace the mounts from outside are locked: they can only be covered. */
static void hide(const char *point)
{
	if (umount2(point, MNT_DETACH) != 0 && mount("none", point, "tmpfs", 0, NULL) != 0)
		die(point);
}

/* The first process of a pid namespace gets only signals that it handles. */
static void be_first(void)
{
	member("second", stay_in_new_session);
	stay();
}

static void go_pid(void)
{
	new_namespace(CLONE_NEWPID);
	member("first", be_first);
	stay();
}

static void new_pid(void)
{
	member("outside", go_pid);
	await_up(3);
}

static void go_user(void)
{
	new_namespace(CLONE_NEWUSER);
	member("inside", stay_in_new_session);
	stay();
}

static void new_user(void)
{
	member("inside", go_user);
	await_up(2);
}

/* Takes /proc and the control groups out of its own sight. */
static void go_mount(void)
{
	const char *groups = cgroup_mount();
	new_namespace(CLONE_NEWNS);
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		die("make / private");
	hide(groups);
	if (mount("none", "/proc", "tmpfs", 0, NULL) != 0)
		die("hide /proc");
	stay_in_new_session();
}

static void new_mount(void)
{
	member("inside", go_mount);
	await_up(1);
}

/* Its own /proc/self/cgroup says "/". */
static void go_cgroup(void)
{
	new_namespace(CLONE_NEWCGROUP);
	member("inside", stay_in_new_session);
	stay();
}

static void new_cgroup(void)
{
	member("inside", go_cgroup);
	await_up(2);
}

const struct mode namespace_modes[] = {
	{"new-pid", NULL, new_pid, NULL, ENDS, "members in a pid namespace"},
	{"new-user", NULL, new_user, NULL, ENDS, "members in a user namespace"},
	{"new-mount", NULL, new_mount, NULL, ENDS, "a member in a mount namespace without /proc"},
	{"new-cgroup", NULL, new_cgroup, NULL, ENDS, "members in a cgroup namespace"},
	{0},
};
