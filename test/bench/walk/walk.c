// SPDX-License-Identifier: Apache-2.0
/*
 * walk SLICE PID
 *
 * Opens and reads, for each group in a slice, the files and attributes that `ls` shows it
 * by, and looks at none of them. PID stands for the launcher of all.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static const char *const attributes[] = {
	"user.mcpscope.armed", "user.mcpscope.name", "user.mcpscope.policy", "user.mcpscope.start", "user.mcpscope.client",
	"user.mcpscope.unit", "user.mcpscope.ending", "user.mcpscope.launcher",
};
static const char *const files[] = {"cgroup.events", "cgroup.procs", "cpu.stat", "memory.current", "memory.peak"};

static int directory(int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		err(1, "open %s", name);
	return fd;
}

static void contents(int dir, const char *name)
{
	char buf[4096];
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return; /* not every controller is there */
	while (read(fd, buf, sizeof buf) > 0)
		;
	close(fd);
}

static void group(int slice, const char *name, const char *launcher)
{
	char buf[4096];
	struct stat st;
	int top = directory(slice, name), payload = directory(top, "payload"), supervisor = directory(top, "supervisor");

	for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
		(void)!fgetxattr(payload, attributes[i], buf, sizeof buf);
	contents(AT_FDCWD, launcher);
	contents(supervisor, "cgroup.procs");
	fstat(payload, &st);
	(void)!flock(payload, LOCK_SH | LOCK_NB);
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		contents(payload, files[i]);
	close(supervisor);
	close(payload);
	close(top);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		errx(2, "usage: walk SLICE PID");
	int slice = directory(AT_FDCWD, argv[1]), n = 0;
	char launcher[64];
	DIR *all = fdopendir(slice);

	snprintf(launcher, sizeof launcher, "/proc/%s/stat", argv[2]);
	for (struct dirent *e; (e = readdir(all));)
		if (e->d_type == DT_DIR && !strncmp(e->d_name, "mcp-", 4)) {
			group(slice, e->d_name, launcher);
			n++;
		}
	return printf("%d\n", n) < 0;
}
