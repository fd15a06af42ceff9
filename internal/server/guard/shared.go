// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import "golang.org/x/sys/unix"

// These are constants of other packages, which code without a runtime does not import. TestSharedConstants
// compares them. Those that end with NUL are arguments of system calls.
const (
	groupPrefix   = "mcp-"                             // names.GroupPrefix
	scopeSuffix   = ".scope"                           // names.ScopeSuffix
	sessionPrefix = "mcp-session_"                     // names.SessionPrefix
	sliceName     = "mcp.slice"                        // names.Slice
	payloadName   = "payload\x00"                      // names.PayloadName
	guardsName    = "guards\x00"                       // names.GuardsName
	guardPrefix   = "guard-"                           // names.GuardPrefix
	helperPrefix  = "helper-"                          // names.HelperPrefix
	helperCommand = "supervise\x00"                    // names.HelperCommand
	idVariable    = "MCPSCOPE_ID="                     // of launcher
	stopSignal    = unix.SIGWINCH                      // names.StopSignal
	groupMode     = 0o700                              // group.GroupMode
	attrArmed     = "user.mcpscope.armed\x00"          // group.AttrArmed
	attrNotes     = "user.mcpscope.notes\x00"          // group.AttrNotes
	attrLimits    = "user.mcpscope.limits\x00"         // group.AttrLimits
	attrEnding    = "user.mcpscope.ending\x00"         // group.AttrEnding
	attrHeld      = "user.mcpscope.held\x00"           // idle.AttrHeld
	settleAfter   = 1e9                                // policy.SettleAfter, in nanoseconds
	tagBits       = 42                                 // freeze.TagBits
	tagMagic      = uint64(0x6d63)                     // of freeze.NewTag
	idLetters     = "abcdefghjkmnpqrstuvwxyz023456789" // names.IDLetters, of which there are 32
	idLength      = 8                                  // names.IDLength
)

// ending are the signals by which a client ends a server: linux.Ending.
const ending = 1<<(unix.SIGINT-1) | 1<<(unix.SIGTERM-1) | 1<<(unix.SIGHUP-1) | 1<<(unix.SIGQUIT-1)
