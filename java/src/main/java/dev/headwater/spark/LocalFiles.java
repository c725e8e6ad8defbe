package dev.headwater.spark;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system, which sets permissions with Java.
 *
 * <p>Without Hadoop's native library, which PySpark does not contain, each new file and folder
 * starts a process for `chmod`: three for each file of a table.
 */
public final class LocalFiles extends LocalFileSystem {
  /** Bits that Java can't set: sticky, setgid and setuid. */
  private static final int SPECIAL = 07000;

  public LocalFiles() {
    super(new Raw());
  }

  private static final class Raw extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      int mode = permission.toShort();
      java.nio.file.Path file = pathToFile(path).toPath();
      try {
        // `chmod` keeps these bits of folders, such as setgid of a shared folder.
        int before = (Integer) Files.getAttribute(file, "unix:mode");
        if (((mode | before) & SPECIAL) == 0) {
          Files.setPosixFilePermissions(file, permissions(mode));
          return;
        }
      } catch (UnsupportedOperationException error) {
        // Windows has no such permissions.
      }
      super.setPermission(path, permission);
    }
  }

  /** From the lowest nine bits: read, write and execute of owner, group and others. */
  private static Set<PosixFilePermission> permissions(int mode) {
    Set<PosixFilePermission> permissions = EnumSet.noneOf(PosixFilePermission.class);
    PosixFilePermission[] all = PosixFilePermission.values();
    for (int at = 0; at < all.length; at++) {
      if ((mode >> (all.length - 1 - at) & 1) == 1) {
        permissions.add(all[at]);
      }
    }
    return permissions;
  }
}
