! kernels constructs as hydrodynamics codes have them: branches around nests of independent loops in data regions, reductions.
module hydro
  implicit none
  integer, parameter :: g_xdir = 1
  real(kind=8), parameter :: one_by_six = 1.0_8/6.0_8
contains

  subroutine ideal_gas_kernel(x_min, x_max, y_min, y_max, density, energy, pressure, soundspeed)
    integer :: x_min, x_max, y_min, y_max
    real(kind=8), dimension(x_min-2:x_max+2, y_min-2:y_max+2) :: density, energy, pressure, soundspeed
    integer :: j, k
    real(kind=8) :: sound_speed_squared, v, pressurebyenergy, pressurebyvolume
!$ACC DATA &
!$ACC PRESENT(density,energy) &
!$ACC PRESENT(pressure,soundspeed)
!$ACC KERNELS
!$ACC LOOP INDEPENDENT
    DO k = y_min, y_max
!$ACC LOOP INDEPENDENT PRIVATE(v,pressurebyenergy,pressurebyvolume,sound_speed_squared)
      DO j = x_min, x_max
        v = 1.0_8/density(j, k)
        pressure(j, k) = (1.4_8 - 1.0_8)*density(j, k)*energy(j, k)
        pressurebyenergy = (1.4_8 - 1.0_8)*density(j, k)
        pressurebyvolume = -density(j, k)*pressure(j, k)
        sound_speed_squared = v*v*(pressure(j, k)*pressurebyenergy - pressurebyvolume)
        soundspeed(j, k) = SQRT(sound_speed_squared)
      ENDDO
    ENDDO
!$ACC END KERNELS
!$ACC END DATA
  end subroutine

  subroutine advec_cell_kernel(x_min, x_max, y_min, y_max, dir, sweep_number, vertexdx, volume, density1, energy1, &
                               mass_flux_x, vol_flux_x, vol_flux_y, pre_vol, post_vol, ener_flux)
    integer :: x_min, x_max, y_min, y_max, dir, sweep_number
    real(kind=8), dimension(x_min-2:x_max+2, y_min-2:y_max+2) :: volume, density1, energy1
    real(kind=8), dimension(x_min-2:x_max+3, y_min-2:y_max+2) :: vol_flux_x, mass_flux_x
    real(kind=8), dimension(x_min-2:x_max+2, y_min-2:y_max+3) :: vol_flux_y
    real(kind=8), dimension(x_min-2:x_max+3, y_min-2:y_max+3) :: pre_vol, post_vol, ener_flux
    real(kind=8), dimension(x_min-2:x_max+3) :: vertexdx
    integer :: j, k, upwind, donor, downwind, dif
    real(kind=8) :: wind, sigma, sigmat, sigma3, sigma4, diffuw, diffdw, limiter, pre_mass, post_mass
!$ACC DATA &
!$ACC PRESENT(density1,energy1,volume,vol_flux_x,vol_flux_y,mass_flux_x,vertexdx,pre_vol,post_vol,ener_flux)
!$ACC KERNELS
    IF (dir .EQ. g_xdir) THEN
      IF (sweep_number .EQ. 1) THEN
!$ACC LOOP INDEPENDENT
        DO k = y_min-2, y_max+2
!$ACC LOOP INDEPENDENT
          DO j = x_min-2, x_max+2
            pre_vol(j, k) = volume(j, k) + (vol_flux_x(j+1, k) - vol_flux_x(j, k) + vol_flux_y(j, k+1) - vol_flux_y(j, k))
            post_vol(j, k) = pre_vol(j, k) - (vol_flux_x(j+1, k) - vol_flux_x(j, k))
          ENDDO
        ENDDO
      ELSE
!$ACC LOOP INDEPENDENT
        DO k = y_min-2, y_max+2
!$ACC LOOP INDEPENDENT
          DO j = x_min-2, x_max+2
            pre_vol(j, k) = volume(j, k) + vol_flux_x(j+1, k) - vol_flux_x(j, k)
            post_vol(j, k) = volume(j, k)
          ENDDO
        ENDDO
      ENDIF
!$ACC LOOP INDEPENDENT
      DO k = y_min, y_max
!$ACC LOOP INDEPENDENT PRIVATE(upwind,donor,downwind,dif,sigmat,sigma3,sigma4,sigma,diffuw,diffdw,limiter,wind)
        DO j = x_min, x_max+2
          IF (vol_flux_x(j, k) .GT. 0.0) THEN
            upwind = j - 2
            donor = j - 1
            downwind = j
            dif = donor
          ELSE
            upwind = MIN(j+1, x_max+2)
            donor = j
            downwind = j - 1
            dif = upwind
          ENDIF
          sigmat = ABS(vol_flux_x(j, k))/pre_vol(donor, k)
          sigma3 = (1.0_8 + sigmat)*(vertexdx(j)/vertexdx(dif))
          sigma4 = 2.0_8 - sigmat
          sigma = sigmat
          diffuw = density1(donor, k) - density1(upwind, k)
          diffdw = density1(downwind, k) - density1(donor, k)
          wind = 1.0_8
          IF (diffdw .LE. 0.0) wind = -1.0_8
          IF (diffuw*diffdw .GT. 0.0) THEN
            limiter = (1.0_8 - sigma)*wind*MIN(ABS(diffuw), ABS(diffdw) &
                , one_by_six*(sigma3*ABS(diffuw) + sigma4*ABS(diffdw)))
          ELSE
            limiter = 0.0
          ENDIF
          mass_flux_x(j, k) = vol_flux_x(j, k)*(density1(donor, k) + limiter)
          ener_flux(j, k) = mass_flux_x(j, k)*energy1(donor, k)
        ENDDO
      ENDDO
!$ACC LOOP INDEPENDENT
      DO k = y_min, y_max
!$ACC LOOP INDEPENDENT PRIVATE(pre_mass,post_mass)
        DO j = x_min, x_max
          pre_mass = density1(j, k)*pre_vol(j, k)
          post_mass = pre_mass + mass_flux_x(j, k) - mass_flux_x(j+1, k)
          energy1(j, k) = (energy1(j, k)*pre_mass + ener_flux(j, k) - ener_flux(j+1, k))/post_mass
          density1(j, k) = post_mass/post_vol(j, k)
        ENDDO
      ENDDO
    ENDIF
!$ACC END KERNELS
!$ACC END DATA
  end subroutine

  subroutine field_summary_kernel(x_min, x_max, y_min, y_max, volume, density0, soundspeed, vol, mass, dt)
    integer :: x_min, x_max, y_min, y_max
    real(kind=8), dimension(x_min-2:x_max+2, y_min-2:y_max+2) :: volume, density0, soundspeed
    real(kind=8) :: vol, mass, dt, cell_vol
    integer :: j, k
    vol = 0.0
    mass = 0.0
    dt = 1.0e10_8
!$ACC DATA PRESENT(volume,density0,soundspeed)
!$ACC KERNELS
!$ACC LOOP INDEPENDENT PRIVATE(cell_vol) REDUCTION(+ : vol,mass)
    DO k = y_min, y_max
!$ACC LOOP INDEPENDENT PRIVATE(cell_vol) REDUCTION(+ : vol,mass)
      DO j = x_min, x_max
        cell_vol = volume(j, k)
        vol = vol + cell_vol
        mass = mass + cell_vol*density0(j, k)
      ENDDO
    ENDDO
!$ACC END KERNELS
!$ACC KERNELS
!$ACC LOOP INDEPENDENT REDUCTION(MIN : dt)
    DO k = y_min, y_max
!$ACC LOOP INDEPENDENT REDUCTION(MIN : dt)
      DO j = x_min, x_max
        IF (0.5_8/soundspeed(j, k) .LT. dt) dt = 0.5_8/soundspeed(j, k)
      ENDDO
    ENDDO
!$ACC END KERNELS
!$ACC END DATA
  end subroutine
end module

! The same without directives, cell by cell.
module reference
  implicit none
contains
  subroutine step(nx, ny, sweep, dx, volume, density, energy, flux, flux_y)
    integer, intent(in) :: nx, ny, sweep
    real(8), intent(in) :: dx(-1:), volume(-1:, -1:), flux(-1:, -1:), flux_y(-1:, -1:)
    real(8), intent(inout) :: density(-1:, -1:), energy(-1:, -1:)
    real(8) :: mass(-1:nx+3), ener(-1:nx+3), pre(-1:nx+2), post(-1:nx+2), up, down, s, limiter, m
    integer :: j, k, upwind, donor, downwind, dif
    do k = 1, ny
      do j = -1, nx + 2
        if (sweep == 1) then
          pre(j) = volume(j, k) + (flux(j+1, k) - flux(j, k) + flux_y(j, k+1) - flux_y(j, k))
          post(j) = pre(j) - (flux(j+1, k) - flux(j, k))
        else
          pre(j) = volume(j, k) + flux(j+1, k) - flux(j, k)
          post(j) = volume(j, k)
        end if
      end do
      do j = 1, nx + 2
        upwind = min(j + 1, nx + 2)
        donor = j
        downwind = j - 1
        dif = upwind
        if (flux(j, k) > 0) then
          upwind = j - 2
          donor = j - 1
          downwind = j
          dif = donor
        end if
        s = abs(flux(j, k))/pre(donor)
        up = density(donor, k) - density(upwind, k)
        down = density(downwind, k) - density(donor, k)
        limiter = 0
        if (up*down > 0) then
          limiter = (1 - s)*min(abs(up), abs(down), ((1 + s)*(dx(j)/dx(dif))*abs(up) + (2 - s)*abs(down))/6)
          if (down <= 0) limiter = -limiter
        end if
        mass(j) = flux(j, k)*(density(donor, k) + limiter)
        ener(j) = mass(j)*energy(donor, k)
      end do
      do j = 1, nx
        m = density(j, k)*pre(j) + mass(j) - mass(j+1)
        energy(j, k) = (energy(j, k)*density(j, k)*pre(j) + ener(j) - ener(j+1))/m
        density(j, k) = m/post(j)
      end do
    end do
  end subroutine
end module

program main
  use check
  use hydro
  use reference
  implicit none
  integer, parameter :: nx = 37, ny = 23
  real(8), dimension(-1:nx+2, -1:ny+2) :: volume, density, energy, pressure, soundspeed, d, e
  real(8) :: flux(-1:nx+3, -1:ny+2), mass_flux(-1:nx+3, -1:ny+2), flux_y(-1:nx+2, -1:ny+3), dx(-1:nx+3)
  real(8), dimension(-1:nx+3, -1:ny+3) :: pre, post, ener
  real(8) :: vol, mass, dt
  integer :: j, k, s
  do k = -1, ny + 3
    do j = -1, nx + 3
      if (k <= ny + 2) flux(j, k) = 0.01d0*sin(j*0.7d0 + k)
      if (j <= nx + 2) flux_y(j, k) = 0.02d0*cos(j*0.2d0 - k)
      if (j <= nx + 2 .and. k <= ny + 2) then
        volume(j, k) = 1 + 0.001d0*j
        density(j, k) = 1 + 0.1d0*cos(j*0.3d0 + k*0.2d0)
        energy(j, k) = 2 + 0.1d0*sin(j*0.2d0 - k*0.4d0)
      end if
      dx(j) = 0.5d0 + 0.01d0*j
    end do
  end do
  d = density
  e = energy
  soundspeed = 0
  pressure = 0
  mass_flux = 0
  ener = 0
  !$acc data copyin(volume, flux, flux_y, dx, mass_flux) create(pre, post) copy(density, energy, pressure, soundspeed, ener)
  do s = 1, 4
    call advec_cell_kernel(1, nx, 1, ny, g_xdir, 1 + mod(s, 2), dx, volume, density, energy, &
                           mass_flux, flux, flux_y, pre, post, ener)
    call step(nx, ny, 1 + mod(s, 2), dx, volume, d, e, flux, flux_y)
  end do
  call ideal_gas_kernel(1, nx, 1, ny, density, energy, pressure, soundspeed)
  call field_summary_kernel(1, nx, 1, ny, volume, density, soundspeed, vol, mass, dt)
  !$acc end data
  call equal('density', maxval(abs(density - d)) < 1d-12, .true.)
  call equal('energy', maxval(abs(energy - e)) < 1d-12, .true.)
  call equal('soundspeed', maxval(abs(soundspeed(1:nx, 1:ny) - sqrt(1.4d0*0.4d0*e(1:nx, 1:ny)))) < 1d-12, .true.)
  call equal('volume', abs(vol - sum(volume(1:nx, 1:ny))) < 1d-9, .true.)
  call equal('mass', abs(mass - sum(volume(1:nx, 1:ny)*d(1:nx, 1:ny))) < 1d-9, .true.)
  call equal('dt', abs(dt - 0.5d0/maxval(soundspeed(1:nx, 1:ny))) < 1d-12, .true.)
  call pass()
end program
