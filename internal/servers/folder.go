package servers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const folderPrefix = "feedrenderer-server-"

// folder is a temporary folder whose lock (flock, on the folder itself) is held by its owner and by the servers that work in it,
// which inherit it. A free lock therefore says that all of them are gone, and anybody may remove the folder.
type folder struct {
	path string
	lock *os.File
}

// newFolder makes a folder that other users may pass through, not list.
func newFolder() (*folder, error) {
	root := temporaryRoot()
	if err := sweep(root); err != nil {
		return nil, err
	}
	for {
		path, err := os.MkdirTemp(root, folderPrefix)
		if err != nil {
			return nil, err
		}
		lock, err := lockFolder(path)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.EWOULDBLOCK) {
			continue // somebody's sweep came between the two steps and takes it for a dead one
		} else if err != nil {
			return nil, err
		}
		f := &folder{path: path, lock: lock}
		if err := os.Chmod(path, 0o711); err != nil { //nolint:gosec // another user's server must reach its data below
			return nil, errors.Join(err, f.remove())
		}
		return f, nil
	}
}

func (f *folder) remove() error {
	return errors.Join(os.RemoveAll(f.path), f.lock.Close())
}

// sweep removes the folders that killed processes of this user have left.
func sweep(root string) error {
	paths, err := filepath.Glob(filepath.Join(root, folderPrefix+"*"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		if !ownFolder(path) {
			continue
		}
		lock, err := lockFolder(path)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.EWOULDBLOCK) {
			continue // removed just now, or alive
		} else if err != nil {
			return err
		}
		if err := (&folder{path: path, lock: lock}).remove(); err != nil {
			return fmt.Errorf("remove a folder left behind: %w", err)
		}
	}
	return nil
}

func ownFolder(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(owner.Uid) == os.Geteuid()
}

// lockFolder takes the lock of a folder: EWOULDBLOCK says that it is held, ErrNotExist that the folder is gone.
func lockFolder(path string) (*os.File, error) {
	lock, err := os.Open(path) //nolint:gosec // a folder of ours
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	// It may have been removed between the two steps; then the lock is that of nothing.
	if _, err := os.Lstat(path); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// temporaryRoot is the system's folder for temporary files, unless the user that Postgres runs as cannot pass through to it.
func temporaryRoot() string {
	for _, root := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		if os.Geteuid() != 0 || passable(root) {
			return root
		}
	}
	return os.TempDir()
}

// passable says whether everybody may pass through a folder and all above it.
func passable(path string) bool {
	path, err := filepath.Abs(path)
	for err == nil {
		var info os.FileInfo
		if info, err = os.Stat(path); err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if path == filepath.Dir(path) {
			return true
		}
		path = filepath.Dir(path)
	}
	return false
}
