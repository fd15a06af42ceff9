# SPDX-License-Identifier: Apache-2.0
# Installs the programs of a release. The release has this file with its version and checksums.
class Mcpscope < Formula
  desc "Run MCP servers in control groups, and leave nothing of them behind"
  homepage "https://github.com/mcpscope/mcpscope"
  version "@VERSION@"
  license "Apache-2.0"

  depends_on :linux

  on_intel do
    url "https://github.com/mcpscope/mcpscope/releases/download/v@VERSION@/mcpscope-@VERSION@-linux-amd64.tar.gz"
    sha256 "@SHA256-amd64@"
  end

  on_arm do
    url "https://github.com/mcpscope/mcpscope/releases/download/v@VERSION@/mcpscope-@VERSION@-linux-arm64.tar.gz"
    sha256 "@SHA256-arm64@"
  end

  def install
    ENV["PREFIX"] = prefix.to_s
    system "packaging/install", "bin"
  end

  def caveats
    <<~TEXT
      mcpscope wrap runs the configured servers of your clients under mcpscope.
      mcpscope unwrap must come before brew uninstall mcpscope.
    TEXT
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/mcpscope version")
    assert_equal "served", pipe_output("#{bin}/mcpscope run -- cat", "served", 0)
  end
end
