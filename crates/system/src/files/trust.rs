//! Decides whether a file or folder may be used as code or options.
//!
//! A path is followed component by component through descriptors, so it cannot change between check and use. Every
//! folder, every link and the file itself must belong to the user or to root, and others must not be able to write to
//! it. A folder with the sticky bit, such as `/tmp`, may be writable: other users cannot replace its entries, and each
//! entry is checked itself. Once every component has passed, only the user and root can redirect the resolved path, so
//! you may also pass it to a library or program that opens it by name.
//!
//! Some decisions need an explanation:
//!
//! - *Groups.* The private group of a component's owner may have write permission: the owner's primary group, with the
//!   owner's name and without another member, as Debian and Red Hat set it up. The component must not have an access
//!   control list, which may name others. Only `/etc/passwd` and `/etc/group` are read: the recorder runs in other
//!   people's processes, where a name service could block. A group from a directory service never counts as private.
//! - *User namespaces.* In a container without root's user id, everything that belongs to the system's root appears to
//!   belong to the overflow user (65534), and so do the files of all other users. This owner is accepted for the
//!   folders on the way and for the system's own folders, and refused for the end of the path.
//! - *NFS.* With `root_squash`, root's files belong to the overflow user, and root does not trust them.
//! - *Overrides.* `--trust FOLDER` and `MNEME_TRUST` accept a folder with all of its contents, and the folders above it
//!   on the way there.

use std::ffi::{CString, OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use crate::error::FolderError;
use crate::{environment, exit};

/// The environment variable with the folders to trust regardless of their owner, separated by colons.
pub const VARIABLE: &str = "MNEME_TRUST";
/// The maximum length of a chain of links, as in the kernel.
const MOST_LINKS: u32 = 40;
/// The user id that stands for all users without an id in a user namespace.
const OVERFLOW_USER: u32 = 65534;
/// Folders from which the dynamic linker and the shell take code: their owner controls the machine anyway.
const SYSTEM: [&str; 6] = ["/usr", "/lib", "/lib32", "/lib64", "/bin", "/etc"];
/// `f_type` of procfs.
const PROC: libc::c_long = 0x9fa0;

/// The reason for refusing a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stranger {
    /// The requested path.
    path: PathBuf,
    /// Its component at fault.
    at: PathBuf,
    fault: Fault,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Fault {
    Owner(u32),
    /// Permission bits.
    Mode(u32),
    /// Permission bits, and an access control list that may name others.
    List(u32),
}

impl std::error::Error for Stranger {}

impl fmt::Display for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, at, fault } = self;
        let folder = at.display();
        let (what, remedy) = match fault {
            Fault::Owner(user) => (format!("belongs to {}", user_text(*user)), String::new()),
            Fault::Mode(mode) => {
                let who = if mode & 0o002 != 0 { "others than its owner" } else { "its group" };
                (format!("can be written by {who} (mode {mode:04o})"), format!("run chmod go-w '{folder}', or "))
            }
            Fault::List(mode) => (
                format!("has an access control list by which others may write (mode {mode:04o})"),
                format!("run setfacl -b '{folder}', or "),
            ),
        };
        let trusted = trusted_by_remedy(path, at);
        let of = if path == at { String::new() } else { format!("{} is not trusted: ", path.display()) };
        write!(
            f,
            "{of}'{folder}' {what}, and only what you or root alone can change may become code or options; \
             {remedy}pass --trust '{}' (or {VARIABLE}) if you trust who can",
            trusted.display()
        )
    }
}

/// The folder to trust for a path. If the component at fault is on the way to the path's target, it is the target's
/// folder; otherwise the component, or the folder of a link.
fn trusted_by_remedy<'a>(path: &'a Path, at: &'a Path) -> &'a Path {
    let own = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
    let is_link = at.symlink_metadata().is_ok_and(|it| it.is_symlink());
    match own.canonicalize() {
        Ok(resolved) if !is_link && (resolved.starts_with(at) || at.starts_with(&resolved)) => own,
        _ if is_link => at.parent().unwrap_or(at),
        _ => at,
    }
}

fn user_text(user: u32) -> String {
    let name = accounts("/etc/passwd").into_iter().find(|fields| fields.get(2) == Some(&user.to_string()));
    match name.and_then(|fields| fields.into_iter().next()) {
        Some(name) => format!("user {name} ({user})"),
        None => format!("user {user}"),
    }
}

impl From<Stranger> for io::Error {
    fn from(stranger: Stranger) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, stranger)
    }
}

/// Whether an error is a refusal of this module.
pub fn is_refusal(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Stranger>())
}

/// The exit status of a program that cannot read a file named on its command line.
pub fn exit_status(error: &io::Error) -> i32 {
    if is_refusal(error) { exit::BAD_USAGE } else { exit::NO_INPUT }
}

/// Adds trusted folders for this process and all processes that it starts. Call it in the first lines of a program.
///
/// # Errors
/// One of the folders cannot be used.
pub fn add(folders: &[PathBuf]) -> Result<(), FolderError> {
    if folders.is_empty() {
        return Ok(());
    }
    let mut all: Vec<PathBuf> = std::env::var_os(VARIABLE).iter().flat_map(std::env::split_paths).collect();
    for folder in folders {
        let failed = |source| FolderError::Trust { folder: folder.clone(), source };
        all.push(folder.canonicalize().map_err(failed)?);
    }
    let all = std::env::join_paths(all)?;
    // SAFETY: a program reads its command line before it starts a thread.
    unsafe { std::env::set_var(VARIABLE, all) };
    Ok(())
}

/// The folders that the user trusts, resolved. Relative ones are ignored, because they would depend on the current
/// folder.
fn overrides() -> Vec<PathBuf> {
    let named = environment::variable_os(VARIABLE).unwrap_or_default();
    std::env::split_paths(&named)
        .filter(|path| path.is_absolute())
        .filter_map(|path| path.canonicalize().ok())
        .collect()
}

/// Checks a file or folder, and returns its path without links.
///
/// # Errors
/// The path leads nowhere, or is not trusted ([`is_refusal`]).
pub fn check(path: &Path) -> io::Result<PathBuf> {
    Walk::along(path).map(|found| found.path)
}

/// Checks a program or library that the user names. A name without a folder is accepted, because the search path finds
/// it. A missing file is accepted too: starting or loading it reports the error.
///
/// # Errors
/// See [`check`].
pub fn check_program(path: &Path) -> io::Result<()> {
    if path.components().count() < 2 {
        return Ok(());
    }
    match check(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Opens a file that may be used as code or options.
///
/// # Errors
/// The file cannot be opened, or is not trusted ([`is_refusal`]).
pub fn open(path: &Path) -> io::Result<File> {
    Walk::along(path)?.open(path)
}

/// The contents of a file that may be used as code or options.
///
/// # Errors
/// The file cannot be read, or is not trusted ([`is_refusal`]).
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The same as text.
///
/// # Errors
/// See [`read`]; also fails if the file is not text.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// Describes who else can write to a folder, if anyone can.
pub fn other_writers(folder: &Path) -> Option<String> {
    let walk = Walk::along(folder);
    let refused = walk.as_ref().err().and_then(|error| error.get_ref()?.downcast_ref::<Stranger>());
    match refused {
        Some(Stranger { at, fault: Fault::Mode(mode) | Fault::List(mode), .. }) => {
            Some(format!("others can write to '{}' (mode {mode:04o})", at.display()))
        }
        _ => None,
    }
}

/// A checked folder, for reading many of its files without checking the way there again.
pub struct Folder {
    descriptor: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Checks and opens a folder.
    ///
    /// # Errors
    /// There is no such folder, or it is not trusted ([`is_refusal`]).
    pub fn open(path: &Path) -> io::Result<Self> {
        let Found { descriptor, path: resolved, stat, .. } = Walk::along(path)?;
        if stat.st_mode & libc::S_IFMT != libc::S_IFDIR {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self { descriptor, path: resolved })
    }

    /// The path, without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Resolves a path below the folder, by the same rules.
    fn find(&self, name: &Path) -> io::Result<Found> {
        Walk::from(self.descriptor.try_clone()?, self.path.clone()).follow(name, &self.path.join(name))
    }

    /// Checks a file or folder in it.
    ///
    /// # Errors
    /// See [`check`].
    pub fn check(&self, name: impl AsRef<Path>) -> io::Result<PathBuf> {
        self.find(name.as_ref()).map(|found| found.path)
    }

    /// Opens a folder in it.
    ///
    /// # Errors
    /// See [`Folder::open`].
    pub fn folder(&self, name: impl AsRef<Path>) -> io::Result<Self> {
        let Found { descriptor, path, stat, .. } = self.find(name.as_ref())?;
        if stat.st_mode & libc::S_IFMT != libc::S_IFDIR {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self { descriptor, path })
    }

    /// The contents of a regular file in it. Pipes are refused, because they may never end.
    ///
    /// # Errors
    /// See [`read`]; also fails if the file is not a regular file.
    pub fn read(&self, name: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let path = self.path.join(name.as_ref());
        let found = self.find(name.as_ref())?;
        if found.stat.st_mode & libc::S_IFMT != libc::S_IFREG {
            return Err(super::regular::irregular());
        }
        let mut bytes = Vec::with_capacity(found.stat.st_size.clamp(0, 1 << 30) as usize);
        found.open(&path)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The size of a regular file in it, bytes; `None` if the file is missing or not trusted.
    pub fn size(&self, name: impl AsRef<Path>) -> Option<u64> {
        let stat = self.find(name.as_ref()).ok()?.stat;
        (stat.st_mode & libc::S_IFMT == libc::S_IFREG).then_some(stat.st_size as u64)
    }
}

/// The end of a path that has passed.
struct Found {
    /// Opened with `O_PATH`.
    descriptor: OwnedFd,
    path: PathBuf,
    stat: libc::stat,
    /// Set for a descriptor of a process, which is already open for reading because it has no path to check.
    file: Option<File>,
}

impl Found {
    /// Opens the file for reading.
    fn open(self, asked: &Path) -> io::Result<File> {
        if let Some(file) = self.file {
            return Ok(file);
        }
        if self.stat.st_mode & libc::S_IFMT == libc::S_IFDIR {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        // The last folder is trusted by now, so the name cannot be redirected.
        let file = File::open(&self.path)?;
        let opened = file.metadata()?;
        if (opened.dev(), opened.ino()) != (self.stat.st_dev, self.stat.st_ino) {
            let what = format!("{} was replaced while it was opened; try again", asked.display());
            return Err(io::Error::other(what));
        }
        Ok(file)
    }
}

/// A path that is being followed.
struct Walk {
    folder: OwnedFd,
    /// The folder's path, without links.
    path: PathBuf,
    /// Faults of folders above a trusted folder: they count unless the path ends in the trusted folder.
    tolerated: Vec<(Stranger, PathBuf)>,
}

impl Walk {
    fn along(path: &Path) -> io::Result<Found> {
        let absolute = std::path::absolute(path)?;
        Self::from(open_at(None, OsStr::new("/"))?, "/".into()).follow(&absolute, path)
    }

    fn from(folder: OwnedFd, path: PathBuf) -> Self {
        Self { folder, path, tolerated: Vec::new() }
    }

    /// Follows `way`; errors name `asked`.
    fn follow(mut self, way: &Path, asked: &Path) -> io::Result<Found> {
        let mut left: Vec<OsString> = reversed(way);
        let mut links = 0;
        let mut last = None;
        if left.is_empty() {
            last = Some((self.folder.try_clone()?, stat(&self.folder)?));
        }
        while let Some(name) = left.pop() {
            if name == "/" {
                self.folder = open_at(None, &name)?;
                self.path = "/".into();
                last = Some((self.folder.try_clone()?, stat(&self.folder)?));
                continue;
            }
            if name == ".." {
                self.folder = open_at(Some(&self.folder), &name)?;
                self.path.pop();
                last = Some((self.folder.try_clone()?, stat(&self.folder)?));
                continue;
            }
            let found = open_at(Some(&self.folder), &name)?;
            let its = stat(&found)?;
            let at = self.path.join(&name);
            self.judge(&at, &found, &its, left.is_empty(), asked)?;
            match its.st_mode & libc::S_IFMT {
                libc::S_IFLNK => {
                    links += 1;
                    if links > MOST_LINKS {
                        return Err(io::Error::from_raw_os_error(libc::ELOOP));
                    }
                    if left.is_empty()
                        && is_proc(&self.folder)
                        && let Some(file) = self.descriptor_of_a_process(&at, asked)?
                    {
                        return Ok(file);
                    }
                    left.extend(reversed(Path::new(&link_target(&found)?)));
                }
                libc::S_IFDIR => {
                    last = Some((found.try_clone()?, its));
                    self.folder = found;
                    self.path = at;
                }
                _ if left.is_empty() => {
                    return self.finish(Found { descriptor: found, path: at, stat: its, file: None });
                }
                _ => return Err(io::ErrorKind::NotADirectory.into()),
            }
        }
        let (descriptor, stat) = last.ok_or(io::ErrorKind::NotFound)?;
        let path = self.path.clone();
        self.finish(Found { descriptor, path, stat, file: None })
    }

    /// Opens the target of `/proc/PID/fd/N` or `/dev/stdin`, which may not have a name, and then checks it. `None` for
    /// an ordinary link.
    fn descriptor_of_a_process(&self, at: &Path, asked: &Path) -> io::Result<Option<Found>> {
        let is_descriptor = at.parent().and_then(Path::file_name).is_some_and(|name| name == "fd");
        if !is_descriptor {
            return Ok(None);
        }
        let file = File::open(at)?;
        let descriptor = OwnedFd::from(file.try_clone()?);
        let its = stat(&descriptor)?;
        if its.st_mode & libc::S_IFMT == libc::S_IFDIR {
            return Ok(None);
        }
        // Other users cannot open memory and pipes by name, whatever their mode.
        let fault = match its.st_nlink {
            0 => (!is_owner_trusted(its.st_uid, at, true)).then_some(Fault::Owner(its.st_uid)),
            _ => self.judge_one(at, &descriptor, &its, true),
        };
        if let Some(fault) = fault {
            return Err(Stranger { path: asked.into(), at: at.into(), fault }.into());
        }
        Ok(Some(Found { descriptor, path: at.into(), stat: its, file: Some(file) }))
    }

    fn finish(self, found: Found) -> io::Result<Found> {
        match self.tolerated.into_iter().find(|(_, trusted)| !found.path.starts_with(trusted)) {
            Some((stranger, _)) => Err(stranger.into()),
            None => Ok(found),
        }
    }

    /// Refuses a component, unless the user trusts it.
    fn judge(
        &mut self,
        at: &Path,
        descriptor: &OwnedFd,
        its: &libc::stat,
        is_last: bool,
        asked: &Path,
    ) -> io::Result<()> {
        let Some(fault) = self.judge_one(at, descriptor, its, is_last) else { return Ok(()) };
        let stranger = Stranger { path: asked.into(), at: at.into(), fault };
        let trusted = overrides();
        if trusted.iter().any(|folder| at.starts_with(folder)) {
            return Ok(());
        }
        // A folder on the way to a trusted folder. A stranger's link does not qualify, because it could lead into any
        // part of the trusted folder.
        let is_folder = its.st_mode & libc::S_IFMT == libc::S_IFDIR;
        match trusted.into_iter().find(|folder| is_folder && folder.starts_with(at)) {
            Some(folder) => {
                self.tolerated.push((stranger, folder));
                Ok(())
            }
            None => Err(stranger.into()),
        }
    }

    fn judge_one(&self, at: &Path, descriptor: &OwnedFd, its: &libc::stat, is_last: bool) -> Option<Fault> {
        let kind = its.st_mode & libc::S_IFMT;
        if !is_owner_trusted(its.st_uid, at, is_last) {
            return Some(Fault::Owner(its.st_uid));
        }
        let mode = its.st_mode & 0o7777;
        let is_sticky = kind == libc::S_IFDIR && mode & libc::S_ISVTX != 0;
        // Links do not have a mode, and a device such as /dev/null has no private contents.
        if is_sticky || kind == libc::S_IFLNK || kind == libc::S_IFCHR {
            return None;
        }
        if mode & 0o002 != 0 {
            return Some(Fault::Mode(mode));
        }
        if mode & 0o020 == 0 {
            return None;
        }
        if has_access_list(descriptor) {
            return Some(Fault::List(mode));
        }
        (!is_private_group(its.st_gid, its.st_uid)).then_some(Fault::Mode(mode))
    }
}

/// The components of a path, last one first; an absolute path has `/` as its first.
fn reversed(path: &Path) -> Vec<OsString> {
    let part = |component: Component<'_>| (component != Component::CurDir).then(|| component.as_os_str().to_owned());
    path.components().rev().filter_map(part).collect()
}

fn is_owner_trusted(user: u32, at: &Path, is_last: bool) -> bool {
    // SAFETY: takes nothing, and cannot fail.
    let own = unsafe { libc::geteuid() };
    if user == own || user == 0 {
        return true;
    }
    let is_systems = || SYSTEM.iter().any(|folder| at.starts_with(folder));
    user == OVERFLOW_USER && (!is_last || is_systems()) && stands_for_unmapped(OVERFLOW_USER)
}

/// Whether a user id stands for users without an id in this user namespace.
fn stands_for_unmapped(user: u32) -> bool {
    std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| !maps(&map, user))
}

/// Whether a namespace's map contains a user id. Its lines hold the first id inside, the first id outside, and the
/// length.
fn maps(map: &str, user: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().filter_map(|number| number.parse::<u64>().ok());
        let (Some(first), Some(_), Some(count)) = (numbers.next(), numbers.next(), numbers.next()) else {
            return false;
        };
        (first..first + count).contains(&u64::from(user))
    })
}

/// Whether a group is the private group of a user.
fn is_private_group(group: u32, user: u32) -> bool {
    is_private_in(&accounts("/etc/passwd"), &accounts("/etc/group"), group, user)
}

/// The lines of an account file, split into fields.
fn accounts(file: &str) -> Vec<Vec<String>> {
    let text = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().map(|line| line.split(':').map(str::to_owned).collect()).collect()
}

fn is_private_in(users: &[Vec<String>], groups: &[Vec<String>], group: u32, user: u32) -> bool {
    let (group, user) = (group.to_string(), user.to_string());
    let field = |line: &[String], at: usize| line.get(at).cloned().unwrap_or_default();
    let of_group: Vec<_> = users.iter().filter(|line| field(line, 3) == group).collect();
    let [owner] = of_group[..] else { return false };
    let name = field(owner, 0);
    let mut named = groups.iter().filter(|line| field(line, 2) == group);
    let (Some(entry), None) = (named.next(), named.next()) else { return false };
    let members = field(entry, 3);
    let mut members = members.split(',').filter(|member| !member.is_empty());
    field(owner, 2) == user && field(entry, 0) == name && members.all(|member| member == name)
}

/// Whether a file has an access control list. `O_PATH` descriptors do not give access to attributes, so this uses the
/// name.
fn has_access_list(descriptor: &OwnedFd) -> bool {
    let path = CString::new(format!("/proc/self/fd/{}", descriptor.as_raw_fd())).expect("no NUL");
    // SAFETY: both texts end with a NUL; without a buffer, the call only returns the size.
    let size = unsafe { libc::getxattr(path.as_ptr(), c"system.posix_acl_access".as_ptr(), std::ptr::null_mut(), 0) };
    size > 0
}

/// Opens a component without following it, as `O_PATH`.
fn open_at(folder: Option<&OwnedFd>, name: &OsStr) -> io::Result<OwnedFd> {
    let name = CString::new(name.as_bytes())?;
    let folder = folder.map_or(libc::AT_FDCWD, AsRawFd::as_raw_fd);
    loop {
        // SAFETY: the name ends with a NUL, and the folder is open or stands for the current one.
        let descriptor =
            unsafe { libc::openat(folder, name.as_ptr(), libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC) };
        if descriptor >= 0 {
            // SAFETY: the descriptor is new, without another owner.
            return Ok(unsafe { OwnedFd::from_raw_fd(descriptor) });
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn stat(descriptor: &OwnedFd) -> io::Result<libc::stat> {
    // SAFETY: plain data, which the call fills in.
    unsafe {
        let mut stat = std::mem::zeroed();
        match libc::fstat(descriptor.as_raw_fd(), &mut stat) {
            0 => Ok(stat),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn is_proc(folder: &OwnedFd) -> bool {
    // SAFETY: plain data, which the call fills in.
    unsafe {
        let mut system: libc::statfs = std::mem::zeroed();
        libc::fstatfs(folder.as_raw_fd(), &mut system) == 0 && system.f_type == PROC
    }
}

/// The target of a link that was itself opened.
fn link_target(link: &OwnedFd) -> io::Result<OsString> {
    let mut target = vec![0; libc::PATH_MAX as usize];
    // SAFETY: the buffer is valid for its length; an empty name means the descriptor itself.
    let length = unsafe { libc::readlinkat(link.as_raw_fd(), c"".as_ptr(), target.as_mut_ptr().cast(), target.len()) };
    if length < 0 {
        return Err(io::Error::last_os_error());
    }
    target.truncate(length as usize);
    Ok(OsString::from_vec(target))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    /// The refused component of a path, and the kind of fault.
    fn refusal(path: &Path) -> Option<(PathBuf, &'static str)> {
        let error = check(path).err()?;
        assert!(is_refusal(&error) && !error.to_string().contains('\n'), "{}: {error}", path.display());
        let stranger = error.get_ref().unwrap().downcast_ref::<Stranger>().unwrap();
        let kind = match stranger.fault {
            Fault::Owner(_) => "owner",
            Fault::Mode(_) => "mode",
            Fault::List(_) => "list",
        };
        Some((stranger.at.clone(), kind))
    }

    fn is_root() -> bool {
        // SAFETY: takes nothing, and cannot fail.
        unsafe { libc::geteuid() == 0 }
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn every_component_counts_and_so_does_every_link() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        std::fs::create_dir_all(at("a/b/c")).unwrap();
        std::fs::write(at("a/b/c/file"), "x").unwrap();
        symlink("../b/c", at("a/b/link")).unwrap();
        let file = at("a/b/link/../c/file");
        assert_eq!(check(&file).unwrap(), at("a/b/c/file"));
        assert_eq!(read(&file).unwrap(), b"x");
        set_mode(&at("a/b"), 0o777);
        assert_eq!(refusal(&file), Some((at("a/b"), "mode")));
        // Others can add files to it, but not replace existing ones.
        set_mode(&at("a/b"), 0o1777);
        assert_eq!(refusal(&file), None);
        set_mode(&at("a/b"), 0o755);
        set_mode(&at("a/b/c/file"), 0o666);
        assert_eq!(refusal(&file), Some((at("a/b/c/file"), "mode")));
        set_mode(&at("a/b/c/file"), 0o644);
        assert_eq!(check(&at("a/none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(check(&at("a/b/c/file/x")).unwrap_err().kind(), io::ErrorKind::NotADirectory);
        symlink("loop", at("loop")).unwrap();
        assert_eq!(check(&at("loop")).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        assert_eq!(check(Path::new("/")).unwrap(), Path::new("/"));
        assert_eq!(check(Path::new("/..//./")).unwrap(), Path::new("/"));
    }

    #[test]
    fn what_belongs_to_another_user_is_refused_wherever_it_stands() {
        if !is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        std::fs::create_dir_all(at("open/theirs/mine")).unwrap();
        set_mode(&at("open"), 0o1777);
        std::fs::write(at("open/theirs/mine/file"), "x").unwrap();
        symlink("/etc/passwd", at("open/link")).unwrap();
        assert_eq!(refusal(&at("open/link")), None);
        chown(at("open/theirs"), Some(1234), None).unwrap();
        assert_eq!(refusal(&at("open/theirs/mine/file")), Some((at("open/theirs"), "owner")));
        lchown(at("open/link"), Some(1234), None).unwrap();
        assert_eq!(refusal(&at("open/link")), Some((at("open/link"), "owner")));
        chown(at("open"), Some(1234), None).unwrap();
        assert_eq!(refusal(&at("open/link")), Some((at("open"), "owner")), "whose sticky folder it is");
        let opened = Folder::open(&root).unwrap();
        assert!(is_refusal(&opened.read("open/theirs/mine/file").unwrap_err()));
        // The folder to trust: the target of a path, or the folder of a link.
        assert_eq!(trusted_by_remedy(&at("open/theirs/mine"), &at("open/theirs")), at("open/theirs/mine"));
        assert_eq!(trusted_by_remedy(&at("open/link"), &at("open/link")), at("open"));
    }

    #[test]
    fn a_folder_reads_what_is_in_it_by_the_same_rules() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("in")).unwrap();
        std::fs::write(root.join("in/file"), "x").unwrap();
        std::fs::write(root.join("open"), "x").unwrap();
        set_mode(&root.join("open"), 0o666);
        symlink("../open", root.join("in/link")).unwrap();
        nix::unistd::mkfifo(&root.join("in/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let opened = Folder::open(&root).unwrap().folder("in").unwrap();
        assert_eq!((opened.path(), opened.size("file")), (root.join("in").as_path(), Some(1)));
        assert_eq!(opened.read("file").unwrap(), b"x");
        assert!(is_refusal(&opened.read("link").unwrap_err()) && opened.size("link").is_none());
        assert!(opened.read("pipe").is_err() && opened.folder("file").is_err());
        assert_eq!(opened.read("none").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn descriptors_without_a_name_are_their_owners() {
        use std::io::{Seek, Write};
        let memory = nix::sys::memfd::memfd_create(c"test", nix::sys::memfd::MFdFlags::MFD_CLOEXEC).unwrap();
        let mut memory = File::from(memory);
        memory.write_all(b"x").unwrap();
        memory.rewind().unwrap();
        let path = format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd());
        assert_eq!(read(Path::new(&path)).unwrap(), b"x");
        let of_self = format!("/dev/fd/{}", memory.as_raw_fd());
        assert_eq!(read(Path::new(&of_self)).unwrap(), b"x");
    }

    #[test]
    fn groups_are_private_if_nobody_else_is_in_them() {
        let lines = |text: &str| -> Vec<Vec<String>> {
            text.lines().map(|line| line.split(':').map(str::to_owned).collect()).collect()
        };
        let users = lines(
            "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nbob:x:1001:100::/:/bin/sh\ncat:x:1002:1002::/:/bin/sh\ndan:x:1003:1002::/:/bin/sh",
        );
        let groups = lines("root:x:0:\nann:x:1000:ann\nusers:x:100:\ncat:x:1002:\nteam:x:2000:ann,bob");
        let is_private = |group, user| is_private_in(&users, &groups, group, user);
        assert!(is_private(1000, 1000) && is_private(0, 0));
        assert!(!is_private(100, 1001), "of another name");
        assert!(!is_private(1002, 1002), "two have it");
        assert!(!is_private(2000, 1000) && !is_private(1000, 1001) && !is_private(7, 7));
        let with_bob = lines("ann:x:1000:ann,bob");
        assert!(!is_private_in(&users, &with_bob, 1000, 1000));
    }

    #[test]
    fn the_overflow_user_is_one_where_it_has_a_number() {
        let initial = "         0          0 4294967295\n";
        assert!(maps(initial, OVERFLOW_USER));
        assert!(maps("0 100000 65536\n", OVERFLOW_USER));
        assert!(!maps("1000 1000 1\n", OVERFLOW_USER) && !maps("", OVERFLOW_USER) && !maps("x", 0));
    }

    /// The list is an environment variable, so a separate process reads it.
    #[test]
    fn a_trusted_folder_is_trusted_with_the_folders_above_it_and_no_other() {
        const SELF: &str = "files::trust::tests::a_trusted_folder_is_trusted_with_the_folders_above_it_and_no_other";
        const CASE: &str = "MNEME_TEST_CASE";
        if let Some(case) = std::env::var_os(CASE) {
            let (path, is_trusted) = (PathBuf::from(&case), std::env::var("MNEME_TEST_TAKEN").is_ok());
            assert_eq!(refusal(&path).is_none(), is_trusted, "{}", path.display());
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("shared/results/in")).unwrap();
        std::fs::create_dir_all(root.join("shared/other")).unwrap();
        for name in ["shared", "shared/results", "shared/results/in"] {
            set_mode(&root.join(name), 0o777);
        }
        symlink("results", root.join("shared/link")).unwrap();
        let run = |trusted: &Path, path: &str, is_trusted: bool| {
            let mut command = std::process::Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", SELF]).env(VARIABLE, trusted).env(CASE, root.join(path));
            command.envs(is_trusted.then_some(("MNEME_TEST_TAKEN", "1")));
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        };
        let results = root.join("shared/results");
        run(&results, "shared/results/in", true);
        run(&results, "shared/link/in", true);
        run(&results, "shared/other", false);
        run(Path::new("shared/results"), "shared/results/in", false);
        run(&root.join("shared/link"), "shared/results", true);
    }
}
