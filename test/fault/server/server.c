// SPDX-License-Identifier: Apache-2.0
/*
 * server SOCK
 *
 * A server that has to be killed: it echoes its stdin, lives on when that ends, ignores
 * every asking signal, and so does its child, in a session of its own. Both report
 * themselves to SOCK: see escape/zoo/zoo.c.
 */
#include "../../escape/zoo/zoo.h"
#include <stddef.h>

const char *mode_name = "server";

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	register_at(argv[1]);
	start_life();
	born(NULL);
	ignore_signals();
	member("session", stay_in_new_session);
	await_up(1);
	say("ready");
	serve(STAYS);
}
