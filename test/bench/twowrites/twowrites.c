// SPDX-License-Identifier: Apache-2.0
/*
 * twowrites DIR [frozen]
 *
 * The least that the end of a group can cost: cgroup.freeze, cgroup.kill, and reading
 * cgroup.events again and again until it says populated 0. "frozen" also waits for
 * frozen 1 in between. Prints the nanoseconds from the first write to the end.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static int file(const char *dir, const char *name, int flags)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	if ((fd = open(path, flags | O_CLOEXEC)) < 0)
		err(1, "%s", path);
	return fd;
}

/* Pauses would let the answer be late, and without any the members would get less of
 * the processors: dying, too, is work. */
static void await(int events, const char *line)
{
	struct timespec pause = { .tv_nsec = 10000 };
	char text[256];
	ssize_t n;

	for (;;) {
		if ((n = pread(events, text, sizeof text - 1, 0)) < 0)
			err(1, "cgroup.events");
		text[n] = 0;
		if (strstr(text, line))
			return;
		nanosleep(&pause, NULL);
	}
}

static void one(int fd)
{
	if (write(fd, "1", 1) != 1)
		err(1, "write");
}

int main(int argc, char **argv)
{
	struct timespec begin, end;

	if (argc < 2)
		errx(2, "usage: twowrites DIR [frozen]");
	int freeze = file(argv[1], "cgroup.freeze", O_WRONLY), kill = file(argv[1], "cgroup.kill", O_WRONLY);
	int events = file(argv[1], "cgroup.events", O_RDONLY);

	prctl(PR_SET_TIMERSLACK, 1UL); /* else the pauses are six times as long */
	clock_gettime(CLOCK_MONOTONIC, &begin);
	one(freeze);
	if (argc > 2)
		await(events, "frozen 1\n");
	one(kill);
	await(events, "populated 0\n");
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%lld\n", (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec);
}
