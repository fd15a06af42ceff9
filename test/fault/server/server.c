// SPDX-License-Identifier: Apache-2.0
/*
 * server SOCK [GROUP]
 *
 * A server that has to be killed: it echoes its stdin, lives on when that ends, ignores
 * every asking signal, and so does its child, in a session of its own, and another one that
 * goes to GROUP at once. All report themselves to SOCK: see escape/zoo/zoo.c.
 */
#include "../../escape/zoo/zoo.h"
#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

const char *mode_name = "server";

static const char *group;

static void leave(void)
{
	int dir = open(group, O_DIRECTORY | O_CLOEXEC);
	int procs = openat(dir, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	if (procs < 0 || write(procs, "0", 1) != 1)
		die(group);
	stay_in_new_session();
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	register_at(argv[1]);
	start_life();
	born(NULL);
	ignore_signals();
	if (argc > 2) {
		group = argv[2];
		member("left", leave);
	}
	member("session", stay_in_new_session);
	await_up(argc > 2 ? 2 : 1);
	say("ready");
	serve(STAYS);
}
