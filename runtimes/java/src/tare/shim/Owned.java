package tare.shim;

/** What woven classes have: the token of whoever made the object, or used it last. Other threads may read and write it. */
public interface Owned {
  long tare();

  void tare(long token);
}
