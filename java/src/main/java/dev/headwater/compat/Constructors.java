package dev.headwater.compat;

import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;
import scala.Option;

/**
 * Creates objects of Spark's classes, whose constructors have more parameters in later versions.
 */
public final class Constructors {
  // As Scala names the methods that return defaults.
  private static final String DEFAULT = "$lessinit$greater$default$";

  private Constructors() {}

  /**
   * @param first the first parameters: those that the constructor does not have are left out, and
   *     further ones have their default, or else false and none
   */
  public static <T> T create(Class<T> type, Object... first) {
    Constructor<?> constructor = type.getConstructors()[0];
    Class<?>[] types = constructor.getParameterTypes();
    Object[] parameters = Arrays.copyOf(first, types.length);
    try {
      for (int i = first.length; i < types.length; i++) {
        parameters[i] = defaultOf(type, i + 1, types[i]);
      }
      return type.cast(constructor.newInstance(parameters));
    } catch (InvocationTargetException failed) {
      throw new IllegalStateException(failed.getCause());
    } catch (ReflectiveOperationException other) {
      throw new IllegalStateException(other);
    }
  }

  private static Object defaultOf(Class<?> owner, int number, Class<?> type)
      throws ReflectiveOperationException {
    try {
      return owner.getMethod(DEFAULT + number).invoke(null);
    } catch (NoSuchMethodException none) {
      if (type == boolean.class) {
        return false;
      }
      if (type == Option.class) {
        return Option.empty();
      }
      throw none;
    }
  }
}
