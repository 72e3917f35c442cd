package configs

// ControlSocket returns listen.control, also of files that are wrong elsewhere: who asks the daemon how
// it is must not have to mend them first. certain is false when the files may name another
// socket, in what cannot be read of them.
func ControlSocket(paths []string) (socket string, certain bool) {
	l := newLoader()
	l.tolerant = true
	l.load(paths)
	if n := l.sections["listen"].below("control"); n != nil {
		if text, ok := n.written(); ok && checkSocket(text) == "" {
			return text, true
		}
	}
	return defaultControl, !l.incomplete
}

// written returns the text that n stands for, also where n is from a file that was only located.
func (n *node) written() (text string, ok bool) {
	if n.kind == otherKind {
		return unquote(n.text)
	}
	return n.text, n.textual()
}
