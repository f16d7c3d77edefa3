package rig

import "syscall"

// ownGroup keeps a child out of the terminal's foreground group: Ctrl-C is the demo's to handle.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
