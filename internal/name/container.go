// SPDX-License-Identifier: Apache-2.0

package name

import "slices"

// Container is a command line that has a container engine run a container.
type Container struct {
	Engine  string // docker, podman or nerdctl
	Compose bool   // through compose, which has fewer flags
	argv    []string
	at      int // where the flags of run begin
	asked   int // how much of argv comes before the subcommand
}

// ContainerOf finds the container that a command line runs; nil if it runs none.
func ContainerOf(argv []string) *Container {
	if c, subcommand := parseEngine(argv); subcommand == "run" {
		return &c
	}
	return nil
}

// OtherContainer is the action of an engine on a container that it does not make, as
// "docker exec"; "" if it does no such thing.
func OtherContainer(argv []string) string {
	c, subcommand := parseEngine(argv)
	if listed("exec start attach", subcommand) {
		return c.Engine + " " + subcommand
	}
	return ""
}

func parseEngine(argv []string) (c Container, subcommand string) {
	at := behind(argv)
	if at == len(argv) || KindOf(argv[at]) != Engine {
		return c, ""
	}
	_, operands := engineFlags.parse(argv[at+1:])
	c = Container{Engine: program(argv[at]), argv: argv, asked: len(argv) - len(operands)}
	c.Compose = first(operands) == "compose"
	if c.Compose || first(operands) == "container" {
		_, operands = engineFlags.parse(operands[1:])
	}
	c.at = len(argv) - len(operands) + 1
	return c, first(operands)
}

// With is the command line with flags for the container in front of its own.
func (c *Container) With(flags ...string) []string {
	return slices.Insert(slices.Clone(c.argv), c.at, flags...)
}

// Asked returns the command line for another command of the same engine, with the same context, host,
// namespace and user.
func (c *Container) Asked(words ...string) []string { return slices.Concat(c.argv[:c.asked], words) }
