/// Declares an enum without fields, with a name for each variant in results and messages.
///
/// The enum is declared as written and gets `ALL` (every variant, in order) and `name`.
///
/// ```
/// strobe_types::named! {
///     #[derive(Clone, Copy, Debug, PartialEq)]
///     pub enum Colour {
///         Red => "red",
///         Deep = 7 => "deep blue",
///     }
/// }
/// assert_eq!(Colour::ALL, [Colour::Red, Colour::Deep]);
/// assert_eq!((Colour::Deep.name(), Colour::Deep as u8), ("deep blue", 7));
/// ```
#[macro_export]
macro_rules! named {
    (
        $(#[$about:meta])*
        $visibility:vis enum $enum:ident {
            $($(#[$variant_about:meta])* $variant:ident $(= $number:expr)? => $name:expr,)+
        }
    ) => {
        $(#[$about])*
        $visibility enum $enum {
            $($(#[$variant_about])* $variant $(= $number)?,)+
        }

        #[allow(dead_code, reason = "not every enum is gone through, and not every one is printed")]
        impl $enum {
            /// Every variant, in declaration order.
            $visibility const ALL: [Self; [$(Self::$variant),+].len()] = [$(Self::$variant),+];

            /// Name in results and messages.
            $visibility const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}
